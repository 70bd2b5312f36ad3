"""One question per module; frames in, frames out."""
