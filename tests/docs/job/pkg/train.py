"""The same job as a module of a package."""

from train import train_one_step

if __name__ == "__main__":
    train_one_step()
