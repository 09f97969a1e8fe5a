"""What a training job asks for: the policy, its fields, and their forms as text."""
