# SPDX-License-Identifier: Apache-2.0
"""checkpoint.py FOLDER LAYERS HIDDEN: a BERT at random, with the sample's vocabulary, as train_bert --model reads it."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import torch

WORDS = 30522  # as many as BERT has


def parameters(layers: int, hidden: int, words: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes, as transformers' BertModel has them."""
    shapes: dict[str, tuple[int, ...]] = {"embeddings.word_embeddings.weight": (words, hidden), "embeddings.position_embeddings.weight": (512, hidden),
                                          "embeddings.token_type_embeddings.weight": (2, hidden)}

    def linear(name: str, rows: int, columns: int) -> None:
        shapes.update({f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)})

    def norm(name: str) -> None:
        shapes.update({f"{name}.weight": (hidden,), f"{name}.bias": (hidden,)})

    norm("embeddings.LayerNorm")
    for layer in range(layers):
        own = f"encoder.layer.{layer}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            linear(f"{own}.{part}", hidden, hidden)
        norm(f"{own}.attention.output.LayerNorm")
        linear(f"{own}.intermediate.dense", 4 * hidden, hidden)
        linear(f"{own}.output.dense", hidden, 4 * hidden)
        norm(f"{own}.output.LayerNorm")
    return {f"bert.{name}": shape for name, shape in shapes.items()}


def write_checkpoint(folder: Path, vocabulary: Path, layers: int, hidden: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary.read_text(encoding="utf-8").splitlines()
    tokens += [f"[unused{i}]" for i in range(WORDS - len(tokens))]
    words = len(tokens)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    config = {"model_type": "bert", "architectures": ["BertForQuestionAnswering"], "vocab_size": words, "hidden_size": hidden, "num_hidden_layers": layers,
              "num_attention_heads": hidden // 64, "intermediate_size": 4 * hidden, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
              "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
              "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    torch.manual_seed(1)
    header: dict[str, object] = {}
    blobs, offset = [], 0
    for name, shape in parameters(layers, hidden, words).items():
        values = torch.ones(shape) if name.endswith("LayerNorm.weight") else torch.zeros(shape) if name.endswith("bias") else 0.02 * torch.randn(shape)
        blob = values.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            file.write(blob)


if __name__ == "__main__":
    write_checkpoint(Path(sys.argv[1]), Path(__file__).resolve().parent / "share/rueda/examples/vocab.txt", int(sys.argv[2]), int(sys.argv[3]))
