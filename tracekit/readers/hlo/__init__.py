"""HLO, the programs that XLA compiled: what their protos and printed texts say of each instruction."""
