# SPDX-License-Identifier: Apache-2.0
"""What the tests of language models share: how programs are run, and small random checkpoints that transformers writes."""

import subprocess

import pytest
from bert_reference import SAMPLE_VOCABULARY, program

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def run_program(name, *flags, ranks=None, cwd=None):
    command = [program(name), "--cache", "none", *map(str, flags)]  # files that are gone tomorrow need no cache
    if ranks:
        command = [program("ruedarun"), "-np", str(ranks), *command]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, cwd=cwd)


def write_checkpoint(folder, kind=transformers.BertForMaskedLM, seed=4, layers=2, vocabulary=SAMPLE_VOCABULARY, **settings):
    """A random model in `folder`, and itself. No bias is zero, and the logits are far apart."""
    tokens = vocabulary.read_text(encoding="utf-8").splitlines()
    torch.manual_seed(seed)
    sizes = {"vocab_size": len(tokens), "hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 2, "intermediate_size": 64}
    model = kind(transformers.BertConfig(**(sizes | settings))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
    return model
