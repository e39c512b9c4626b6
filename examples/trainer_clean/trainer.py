"""A trainer that owns the model, the optimizer and the loop: clean."""

import math

import torch
from metrics import AverageMeter, gradient_norm
from torch import nn

try:
    import wandb
except ImportError:
    wandb = None


class Trainer:
    def __init__(self, args, length):
        self.args = args
        if args.device == "auto":
            self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        else:
            self.device = torch.device(args.device)
        self.model = nn.Sequential(
            nn.Linear(length, 128),
            nn.ReLU(),
            nn.Linear(128, 24),
            nn.ReLU(),
            nn.Linear(24, 128),
            nn.ReLU(),
            nn.Linear(128, length),
        ).to(self.device)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.meter = AverageMeter(self.device)
        self.losses = []
        self.epoch = 0
        self.step = 0
        if args.wandb:
            if wandb is None:
                raise SystemExit("--wandb needs the package wandb: pip install wandb")
            wandb.init(project="trainlint-examples")

    def fit(self, train_loader, test_loader):
        while self.step < self.args.steps:
            self.train_epoch(train_loader)
            error = self.evaluate(test_loader)
            print(f"epoch {self.epoch}: training loss {self.meter.average:.4f}, test error {error:.4f}")
            self.save()
            self.epoch += 1

    def train_epoch(self, loader):
        self.model.train()
        self.meter.reset()
        for noisy, clean in loader:
            noisy = noisy.to(self.device, non_blocking=True)
            clean = clean.to(self.device, non_blocking=True)
            loss = self.train_step(noisy, clean)
            self.meter.update(loss, len(noisy))
            self.losses.append(loss)
            self.step += 1
            if self.step == self.args.steps:
                break

    def train_step(self, noisy, clean):
        self.optimizer.zero_grad()
        silence = torch.zeros(1, noisy.shape[1], device=self.device)
        loss = self.criterion(self.model(noisy), clean) + 0.1 * self.criterion(self.model(silence), silence)
        loss.backward()
        self.optimizer.step()
        if self.step % self.args.log_every == 0:
            self.report(loss)
        return loss.detach()

    def report(self, loss):
        value = loss.item()
        if not math.isfinite(value):
            raise RuntimeError(f"the loss is {value} at step {self.step}")
        if self.args.wandb:
            norm = gradient_norm(self.model).item()
            wandb.log({"train/gradient_norm": norm, "train/step": self.step})

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        error = AverageMeter(self.device)
        for noisy, clean in loader:
            noisy = noisy.to(self.device, non_blocking=True)
            clean = clean.to(self.device, non_blocking=True)
            error.update(self.criterion(self.model(noisy), clean), len(noisy))
        return error.average

    def save(self):
        self.args.output.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
        }
        torch.save(state, self.args.output / "last.pt")

    def load(self, path):
        checkpoint = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.epoch = checkpoint["epoch"] + 1
        self.step = checkpoint["step"]
