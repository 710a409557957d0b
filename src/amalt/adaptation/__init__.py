"""What is learned while moving: small pure parts, and one composition for each sampler."""
