"""Train a Wasserstein network: three updates of the critic for each of the generator."""

import argparse

import torch
import truth
from pictures import SIZE, decoded
from torch import nn
from torch.utils.data import DataLoader

LATENT, CRITIC_STEPS = 32, 3


def generator_network(width=16):
    return nn.Sequential(
        nn.Linear(LATENT, width * (SIZE // 4) ** 2),
        nn.Unflatten(1, (width, SIZE // 4, SIZE // 4)),
        nn.ReLU(),
        nn.ConvTranspose2d(width, width, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )


def critic_network(width=16):
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
    parser.add_argument("--epochs", type=int, default=14)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(480), batch_size=16, shuffle=True, pin_memory=device.type == "cuda", drop_last=True)
    generator, critic = generator_network().to(device), critic_network().to(device)
    generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-4)
    critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-4)

    for epoch in range(args.epochs):
        for index, (images, _) in enumerate(loader):
            truth.mark("batch")
            images = images.to(device, non_blocking=True)
            noise = torch.randn(len(images), LATENT, device=device)
            critic_optimizer.zero_grad()
            critic_loss = critic(generator(noise).detach()).mean() - critic(images).mean()
            critic_loss.backward()
            critic_optimizer.step()
            with torch.no_grad():
                for parameter in critic.parameters():
                    parameter.clamp_(-0.01, 0.01)
            if (index + 1) % CRITIC_STEPS == 0:
                generator_optimizer.zero_grad()
                generator_loss = -critic(generator(noise)).mean()
                generator_loss.backward()
                generator_optimizer.step()
                truth.mark("step")
            assert torch.isfinite(critic_loss)  # expect: TL204
        print(f"epoch {epoch}: {critic_loss.item():.4f} {generator_loss.item():.4f}")


if __name__ == "__main__":
    main()
