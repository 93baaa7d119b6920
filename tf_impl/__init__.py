"""TensorFlow's ways to train the model, one file each."""
