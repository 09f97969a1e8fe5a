"""A package with a training job."""
