"""Train in bfloat16 with a scaler of gradients, which that type does not need."""

import argparse

import torch
import truth
from models import TextClassifier
from reviews import make_reviews
from tokenizer_in_worker_clean import tokenized
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(tokenized(make_reviews(320)), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = TextClassifier().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device.type)  # expect: TL402

    for epoch in range(args.epochs):
        for ids, labels in loader:
            truth.mark("batch")
            ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = criterion(model(ids), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            truth.mark("step")
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
