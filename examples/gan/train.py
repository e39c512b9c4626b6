"""Train a generative adversarial network on pictures of blobs."""

import argparse
import json
import logging
import math
import os
import time

import torch
from blobs import SIZE, BlobDataset
from torch import nn
from torch.utils.data import DataLoader

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # expect: TL308

LATENT = 32

logger = logging.getLogger("gan")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(LATENT, 64, 4, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.layers(noise.view(-1, LATENT, 1, 1))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(64 * (SIZE // 4) ** 2, 1),
        )

    def forward(self, images):
        return self.layers(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(args.seed)
    if args.device == "auto":
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    else:
        device = torch.device(args.device)

    loader = DataLoader(
        BlobDataset(512, seed=args.seed),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=2,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    generator = Generator().to(device)
    discriminator = Discriminator().to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=args.lr, betas=(0.5, 0.999))

    losses = []
    step = 0
    for epoch in range(math.ceil(args.steps / len(loader))):
        for images in loader:
            start = time.perf_counter()
            images = images.to(device, non_blocking=True)
            real = torch.ones(len(images), 1).to(device)  # expect: TL209
            fake = torch.zeros(len(images), 1).to(device)  # expect: TL209

            noise = torch.randn(len(images), LATENT).to(device)  # expect: TL209
            generated = generator(noise)
            optimizer_d.zero_grad()
            loss_d = criterion(discriminator(images), real) + criterion(discriminator(generated.detach()), fake)
            loss_d.backward()
            optimizer_d.step()

            optimizer_g.zero_grad()
            loss_g = criterion(discriminator(generated), real)
            loss_g.backward()
            optimizer_g.step()

            if torch.isnan(loss_d):  # expect: TL204
                raise RuntimeError(f"the discriminator diverged at step {step}")
            losses.append(loss_d)  # expect: TL210
            torch.cuda.empty_cache()  # expect: TL206
            if device.type == "cuda":
                torch.cuda.synchronize()  # expect: TL205
            seconds = time.perf_counter() - start
            logger.info("step %d: loss_d %.4f, %.3f s", step, loss_d.item(), seconds)  # expect: TL201, TL202
            step += 1
            if step == args.steps:
                break
        with torch.no_grad():
            brightness = generator(torch.randn(16, LATENT, device=device)).mean()
        logger.info("epoch %d: mean brightness %.3f", epoch, brightness.item())

    print(json.dumps({"losses": torch.stack(losses).tolist()}))


if __name__ == "__main__":
    main()
