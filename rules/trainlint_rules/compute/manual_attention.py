from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project


class ManualAttention(Rule):
    """Attention is written out as a softmax between two products.

    ## What it does
    Reports the softmax over the scores of queries and keys in models that are trained, where its product with the
    values follows and nothing else uses the scores or the weights.

    ## Why it is slow
    The scores and the weights are matrices of the length of the sequence squared, one for each head, and each operation
    on the way writes one to the GPU's memory, reads it back, and keeps it for the backward pass. A fused attention
    goes through them piece by piece in the memory of the multiprocessors and stores none of them.

    ## When it is fine
    Short sequences; weights that are looked at; second derivatives, which the fused kernels do not have; torch below
    2.0, which has no fused attention.

    ## Example
    ```python
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(mask, float("-inf"))
    out = self.dropout(scores.softmax(dim=-1)) @ v
    ```

    ## Use instead
    ```python
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=~mask, dropout_p=self.dropout.p if self.training else 0.0
    )
    ```
    A boolean `attn_mask` says where attention takes place, which is the opposite of what `masked_fill` takes. For a
    causal mask, `is_causal=True` is faster than a mask.

    ## Fix safety
    Advice without an edit: the scale, the meaning of the mask and the layout of the heads have to be carried over by
    hand, and the result differs in the last digits.

    ## How the probe confirms it
    It leaves the verdict open: kernels of the attention are not told from others. A run with the fused attention,
    compared with one without, tells.

    ## References
    - FlashAttention or SDPA, a fused attention, instead of a softmax(QK)V that is written by hand (articles 000
      and 003).
    - PyTorch, scaled_dot_product_attention, with the code that it stands for:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """

    code, name, family = "TL409", "manual-attention", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "attention kernels"
    torch = ((2, 0), None)
    examples = (
        invalid(
            """
            import math

            import torch
            import torch.nn.functional as F
            from torch import nn
            from torch.utils.data import DataLoader


            class CausalSelfAttention(nn.Module):
                def __init__(self, width, heads, block_size):
                    super().__init__()
                    self.heads = heads
                    self.c_attn = nn.Linear(width, 3 * width)
                    self.c_proj = nn.Linear(width, width)
                    self.attn_dropout = nn.Dropout(0.1)
                    self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size))[None, None])

                def forward(self, x):
                    B, T, C = x.size()
                    q, k, v = self.c_attn(x).split(C, dim=2)
                    k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
                    q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
                    v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
                    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                    att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
                    att = F.softmax(att, dim=-1)  # expect: TL409
                    att = self.attn_dropout(att)
                    y = att @ v
                    return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


            class GPT(nn.Module):
                def __init__(self, width=384, depth=6):
                    super().__init__()
                    self.embed = nn.Embedding(50304, width)
                    self.blocks = nn.ModuleList([CausalSelfAttention(width, 6, 256) for _ in range(depth)])
                    self.head = nn.Linear(width, 50304)

                def forward(self, tokens):
                    x = self.embed(tokens)
                    for block in self.blocks:
                        x = x + block(x)
                    return self.head(x)


            model = GPT().cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
            for tokens in DataLoader(torch.load("tokens.pt"), batch_size=64):
                tokens = tokens.cuda()
                loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a decoder with a causal mask",
        ),
        invalid(
            """
            import torch
            from torch import nn


            class Attention(nn.Module):
                def __init__(self, dim, num_heads=8, attn_drop=0.0):
                    super().__init__()
                    self.num_heads = num_heads
                    self.scale = (dim // num_heads) ** -0.5
                    self.qkv = nn.Linear(dim, dim * 3)
                    self.softmax = nn.Softmax(dim=-1)
                    self.attn_drop = nn.Dropout(attn_drop)
                    self.proj = nn.Linear(dim, dim)

                def forward(self, x, bias=None):
                    B, N, C = x.shape
                    qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
                    q, k, v = qkv[0], qkv[1], qkv[2]
                    attn = torch.matmul(q * self.scale, k.transpose(-2, -1))
                    if bias is not None:
                        attn = attn + bias.unsqueeze(0)
                    attn = self.softmax(attn)  # expect: TL409
                    attn = self.attn_drop(attn)
                    return self.proj(torch.matmul(attn, v).transpose(1, 2).reshape(B, N, C))
            """,
            because="the layer in another file, with a bias on the scores",
            entry="layers.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from layers import Attention


                class ViT(nn.Module):
                    def __init__(self, dim):
                        super().__init__()
                        self.blocks = nn.Sequential(*[Attention(dim) for _ in range(12)])
                        self.head = nn.Linear(dim, 1000)

                    def forward(self, x):
                        return self.head(self.blocks(x).mean(1))


                model = ViT(768).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                for patches, labels in DataLoader(torch.load("patches.pt"), batch_size=128):
                    loss = nn.functional.cross_entropy(model(patches.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def attend(query, key, value, mask=None, dropout=None):
                scores = torch.einsum("bhid,bhjd->bhij", query, key) / query.size(-1) ** 0.5
                if mask is not None:
                    scores = scores.masked_fill(mask == 0, -1e9)
                weights = scores.softmax(dim=-1)  # expect: TL409
                if dropout is not None:
                    weights = dropout(weights)
                return torch.einsum("bhij,bhjd->bhid", weights, value)


            class Layer(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.to_qkv = nn.Linear(dim, 3 * dim)
                    self.dropout = nn.Dropout(0.1)

                def forward(self, x):
                    q, k, v = self.to_qkv(x).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
                    return attend(q, k, v, dropout=self.dropout).transpose(1, 2).flatten(2)


            model = Layer(512).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(torch.load("x.pt"), batch_size=32):
                loss = model(x.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a function that the layer calls; products by einsum",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class SelfAttention2d(nn.Module):
                def __init__(self, channels):
                    super().__init__()
                    self.query = nn.Conv2d(channels, channels // 8, 1)
                    self.key = nn.Conv2d(channels, channels // 8, 1)
                    self.value = nn.Conv2d(channels, channels, 1)
                    self.gamma = nn.Parameter(torch.zeros(1))

                def forward(self, x):
                    q = self.query(x).flatten(2).permute(0, 2, 1)
                    k = self.key(x).flatten(2)
                    energy = torch.bmm(q, k)
                    attention = torch.softmax(energy, dim=-1)  # expect: TL409
                    out = torch.bmm(self.value(x).flatten(2), attention.permute(0, 2, 1))
                    return self.gamma * out.view_as(x) + x


            model = SelfAttention2d(64).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for images in DataLoader(torch.load("images.pt"), batch_size=16):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="over the pixels of an image, with the weights turned",
        ),
        valid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn
            from torch.utils.data import DataLoader


            class Attention(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.qkv = nn.Linear(dim, dim * 3)

                def forward(self, x):
                    q, k, v = self.qkv(x).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


            model = Attention(512).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(torch.load("x.pt"), batch_size=32):
                loss = model(x.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="fused",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Attention(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.qkv = nn.Linear(dim, dim * 3)

                def forward(self, x, return_attention=False):
                    q, k, v = self.qkv(x).chunk(3, dim=-1)
                    attn = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)
                    out = attn @ v
                    if return_attention:
                        return out, attn
                    return out


            class Kept(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.qkv = nn.Linear(dim, dim * 3)

                def forward(self, x):
                    q, k, v = self.qkv(x).chunk(3, dim=-1)
                    attn = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)
                    self.last = attn.detach()
                    return attn @ v


            model = nn.Sequential(Attention(512), Kept(512)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(torch.load("x.pt"), batch_size=32):
                loss = model(x.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the weights are returned, or kept to be looked at",
        ),
        valid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn
            from torch.utils.data import DataLoader


            class CausalSelfAttention(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.qkv = nn.Linear(dim, dim * 3)
                    self.flash = hasattr(F, "scaled_dot_product_attention")

                def forward(self, x):
                    q, k, v = self.qkv(x).chunk(3, dim=-1)
                    if self.flash:
                        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    att = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
                    att = F.softmax(att, dim=-1)
                    return att @ v


            model = CausalSelfAttention(512).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(torch.load("x.pt"), batch_size=32):
                loss = model(x.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="for releases without the fused one",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Odd(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.qkv = nn.Linear(dim, dim * 3)
                    self.talk = nn.Conv2d(8, 8, 1)
                    self.gate = nn.Parameter(torch.ones(8, 1, 1))

                def talking_heads(self, q, k, v):
                    attn = self.talk(q @ k.transpose(-2, -1)).softmax(dim=-1)
                    return attn @ v

                def capped(self, q, k, v):
                    scores = 50 * torch.tanh(q @ k.transpose(-2, -1) / 50)
                    return scores.softmax(dim=-1) @ v

                def gated(self, q, k, v):
                    attn = (q @ k.transpose(-2, -1)).softmax(dim=-1) * self.gate
                    return attn @ v

                def over_queries(self, q, k, v):
                    return (q @ k.transpose(-2, -1)).softmax(dim=-2) @ v

                def forward(self, x):
                    q, k, v = self.qkv(x).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
                    v = self.talking_heads(q, k, v) + self.capped(q, k, v)
                    return self.gated(q, k, v) + self.over_queries(q, k, v)


            model = Odd(512).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(torch.load("x.pt"), batch_size=32):
                loss = model(x.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="mixed heads, capped scores, gated weights, another dimension: no fused attention does these",
        ),
        valid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn
            from torch.utils.data import DataLoader


            class Router(nn.Module):
                def __init__(self, dim, experts):
                    super().__init__()
                    self.gate = nn.Linear(dim, experts)
                    self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])

                def forward(self, x):
                    weights = F.softmax(self.gate(x), dim=-1)
                    outputs = torch.stack([expert(x) for expert in self.experts], dim=-2)
                    return (weights.unsqueeze(-2) @ outputs).squeeze(-2)


            model = Router(512, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for x in DataLoader(torch.load("x.pt"), batch_size=32):
                loss = model(x.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a softmax over experts, with no product of queries and keys before it",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Attention(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.qkv = nn.Linear(dim, dim * 3)

                def forward(self, x):
                    q, k, v = self.qkv(x).chunk(3, dim=-1)
                    return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1) @ v


            model = Attention(512).cuda().eval()
            model.load_state_dict(torch.load("model.pt"))
            with torch.no_grad():
                print(model(torch.load("x.pt").cuda()).shape)
            """,
            because="nothing is trained",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for attention in project.attentions:
            if attention.context.entry.trains:
                yield self.finding(
                    attention,
                    f"{quote(attention.text)} makes the weights of an attention whole, where a fused one stores none",
                    help="Use torch.nn.functional.scaled_dot_product_attention for the products and what is between",
                    related=(
                        RelatedSite(attention.product, "the product of queries and keys"),
                        RelatedSite(attention.result, "the product with the values"),
                    ),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Replace the products, the mask, the softmax and the dropout by `F.scaled_dot_product_attention`",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "kernels of the attention are not told from others; compare with the fused one: --compare"
        return judge_condition(evidence, None, None, unmeasured=unmeasured)
