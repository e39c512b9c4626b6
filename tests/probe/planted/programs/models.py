"""Networks that the programs train; a step takes some tens of milliseconds on one core."""

from torch import nn

CLASSES = 10
VOCABULARY = 512


class ConvNet(nn.Module):
    def __init__(self, width=16, depth=2, channels=3):
        super().__init__()
        layers = [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4))
        self.head = nn.Linear(16 * width, CLASSES)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


class TextClassifier(nn.Module):
    def __init__(self, vocabulary=VOCABULARY, width=64, layers=1, length=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, num_layers=layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, input_ids, attention_mask=None):
        hidden = self.tokens(input_ids) + self.positions.weight[: input_ids.shape[1]]
        padding = None if attention_mask is None else attention_mask == 0
        return self.head(self.layers(hidden, src_key_padding_mask=padding).mean(dim=1))
