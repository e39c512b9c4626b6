"""Train a generative network: both halves in turn, on batches that a worker brings."""

import argparse

import torch
import truth
from pictures import SIZE, decoded
from torch import nn
from torch.utils.data import DataLoader

LATENT = 32


def generator_network(width=24):
    return nn.Sequential(
        nn.Linear(LATENT, width * (SIZE // 4) ** 2),
        nn.Unflatten(1, (width, SIZE // 4, SIZE // 4)),
        nn.ReLU(),
        nn.ConvTranspose2d(width, width, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )


def critic_network(width=24):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(width * (SIZE // 4) ** 2, 1),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        decoded(320),
        batch_size=16,
        shuffle=True,
        num_workers=1,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    generator, critic = generator_network().to(device), critic_network().to(device)
    criterion = nn.BCEWithLogitsLoss()
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)

    for epoch in range(args.epochs):
        for images, _ in loader:
            truth.mark("batch")
            images = images.to(device, non_blocking=True)
            made = generator(torch.randn(len(images), LATENT, device=device))
            real = torch.ones(len(images), 1, device=device)
            critic_optimizer.zero_grad()
            critic_loss = criterion(critic(images), real) + criterion(critic(made.detach()), 1 - real)
            critic_loss.backward()
            critic_optimizer.step()
            generator_optimizer.zero_grad()
            generator_loss = criterion(critic(made), real)
            generator_loss.backward()
            generator_optimizer.step()
            truth.mark("step")
        print(f"epoch {epoch}: {critic_loss.item():.4f} {generator_loss.item():.4f}")


if __name__ == "__main__":
    main()
