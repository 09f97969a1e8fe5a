"""The same job as a module of a package."""

from train import train_one_step  # type: ignore[import-not-found]  # it is in the folder of the job

if __name__ == "__main__":
    train_one_step()
