"""The path of every model: plan -> gate -> summed integer statistics -> noise -> repair -> M-step."""
