"""The parts that estimators are made of: the encoder of inputs and labels, the handle on a core."""
