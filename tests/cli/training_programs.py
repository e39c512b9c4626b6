"""Programs with findings, written in many ways."""

from __future__ import annotations

from hypothesis import strategies as st

HEAD = """import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for step in range(1000):
    loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STATEMENTS = (
    "    print(loss.item())\n",
    "    print(loss.item()); total += loss.item()\n",
    "    print(\n        loss.item(),  # shown\n        total,\n    )\n",
    "    total += \\\n        loss.item()\n",
    "    if loss.item() > (\n        1\n    ): total = 0\n",
    "    for one in (\n        loss.item(),\n    ):  # type: ignore\n        total += one\n",
    '    print(f"""\n# {loss.item()}\n""")\n',
    "    total += loss.item()  # trainlint: ignore[TL202] for the curve\n",
    "    total += loss.item()  # noqa: F401\n",
    "    total += loss.item() \t\n",
    "    total = total + loss.cpu().item() + float(\n        loss)  # trainlint: ignore\n",
    "    total += 1  # trainlint: ignore[TL201]\n",
    "    # trainlint: off[TL201]\n    total += loss.item()\n    # trainlint: on\n",
    "    # trainlint: ignored[TL201]\n",
    "    torch.cuda.empty_cache()\n",
    "    größe = loss.item()\n",
)
LINE_ENDS = ("\n", "\r\n", "\r")


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """Any of the statements in any order, with any line ends, with a byte order mark and a last line end or without."""
    text = HEAD + "".join(draw(st.lists(st.sampled_from(STATEMENTS), max_size=6)))
    text = text.replace("\n", draw(st.sampled_from(LINE_ENDS)))
    return (
        draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + (text if draw(st.booleans()) else text.rstrip("\r\n")).encode()
    )
