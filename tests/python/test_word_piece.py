# SPDX-License-Identifier: Apache-2.0
"""Word pieces, ids and byte offsets against transformers' BertTokenizer, on real and on nasty text.

RUEDA_BIN names the folder of the built programs; the real texts are under RUEDA_DATA.
"""

import random
import re
import subprocess
import unicodedata

import pytest

from bert_reference import (
    SAMPLE,
    SAMPLE_VOCABULARY,
    byte_offsets,
    data_folder,
    program,
    real_vocabulary,
    reference_tokenizer,
    squad_texts,
)

ADVERSARIAL = [
    "",
    "   ",
    "Hello, World! don't (stop).",
    "naïve café Ångström ÉCOLE Çok Şık ñandú žluťoučký kůň",
    "e\u0301 e\u0323\u0301 e\u0301\u0323 \u0301 a\u0300\u0301\u0302\u0303b",
    "\u1e69 \u1e9b\u0323 \u212b \u2126 \ufb01 \uff21\uff22\uff23 \u00bd \u2460",
    "你好世界 日本語テキスト mixed漢字text 한국어 텍스트 각 \u1100\u1161\u11a8 \uf900\ufaff \U0002f800",
    "\u3400\u4dbf\u4e00\u9fff\U00020000\U0002a6df\U0002a700\U0002b73f"
    "\U0002b740\U0002b81f\U0002b820\U0002b91f\U0002b920\U0002ceaf",
    "😀 👨‍👩‍👧 🇩🇪 👍🏽 ❤️ a😀b",
    "zero\u200bwidth\u200cjoin\u200der\ufeffbom\u2060x\u00adsoft",
    "tab\tnew\x0bline\x0cfeed\x1cfs\x85nel\u00a0nbsp\u2003em\u2028ls\u2029ps\u3000ideographic",
    "control\x01\x02\x7f\x80\x9fchars\x00nul\ufffdreplacement",
    "İstanbul I ı i̇ ß ẞ STRASSE ΣΊΣΥΦΟΣ ὈΔΥΣΣΕΎΣ Σ σς ǅ Ǆ ŉ ΐ",
    "[SEP] [CLS] [PAD] [UNK] [MASK] [sep] [ SEP ] a[SEP]b [[MASK]] [MASK [MASK] ] x[CLS][SEP]y",
    "  [MASK]  , [SEP]. caf[UNK]é \u0301[SEP]\u0301",
    "##ing ## # ##s un##able [unused1] [unused99]",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "é" * 101,
    "e\u0301" * 100,
    "e\u0301" * 101,
    "漢" * 101,
    "-" * 101,
    "x" * 100 + "." + "y" * 101 + " z",
    "$ ^ ` ~ + < > = | ¢ £ € « » ‘ ’ “ ” … – — ¿ ¡ § ¶ · ‰ ′ ″ ※ ‽ 、 。 「 」",
    "1,234.56 3.14e-10 50% C++ C# F-16 e.g. http://a.b/c?d=e&f=g user@example.com",
    "\u061d \u09fd \u0a76 \u0c77 \u166d \u1734 \U000111c9 \u2e43 "
    "\u2e52 \U00011938 \u07fd \u0898 \u08e2 \u0378 \ue000 \U000f0000",
    "مرحبا بالعالم שָׁלוֹם नमस्ते สวัสดี tiếng Việt ქართული",
    "\u0f71\u0f72\u0f74 \u302e\u302f a\u302e\u0301 \U0001d165\U0001d16e \U0001d15e",
]


def our_tokens(vocabulary, lines, options=()):
    """[(id, begin, end), ...] for each line; a line must not contain a line feed."""
    text = "".join(line + "\n" for line in lines)
    result = subprocess.run(
        [program("bert_tokenize"), "--offsets", *options, str(vocabulary)],
        input=text.encode("utf-8"),
        capture_output=True,
        check=True,
        timeout=300,
    )
    found = []
    for row in result.stdout.decode().split("\n")[:-1]:
        found.append([tuple(int(part) for part in re.split("[:-]", token)) for token in row.split()])
    assert len(found) == len(lines)
    return found


def compare(vocabulary, lines, lower_case=True):
    program("bert_tokenize")
    reference = reference_tokenizer(vocabulary, lower_case)
    encoded = reference(lines, add_special_tokens=False, return_offsets_mapping=True)
    ours = our_tokens(vocabulary, lines, [] if lower_case else ["--cased"])
    different, tokens = [], 0
    for line, ids, offsets, mine in zip(lines, encoded["input_ids"], encoded["offset_mapping"], ours):
        wanted = [(i, *span) for i, span in zip(ids, byte_offsets(line, offsets))]
        tokens += len(wanted)
        if wanted != mine:
            different.append((line, wanted, mine))
    print(f"{len(lines)} lines, {tokens} tokens, {len(different)} different")
    assert not different, f"{len(different)} of {len(lines)} lines differ; the first: {different[0]}"


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("name", ["gutenberg", "wikitext-2", "movie-reviews", "squad"])
def test_tokens_of_real_text_equal_transformers(name, lower_case):
    folder = data_folder() / name
    if name == "squad":
        lines = [
            line
            for path in sorted(folder.glob("*.json"))
            for text in squad_texts(path)
            for line in text.split("\n")
        ]
    else:
        lines = [
            line
            for path in sorted(folder.glob("*.txt"))
            for line in path.read_bytes().decode("utf-8").split("\n")
        ]
    assert lines, f"{folder} has no text"
    compare(real_vocabulary(), lines, lower_case)


@pytest.mark.parametrize("lower_case", [True, False])
def test_tokens_of_adversarial_text_equal_transformers(lower_case):
    compare(real_vocabulary(), ADVERSARIAL, lower_case)


def test_tokens_of_sample_equal_transformers():
    lines = list(squad_texts(SAMPLE))
    assert len(lines) > 1000
    compare(SAMPLE_VOCABULARY, lines)


def test_sample_has_no_unknown_token():
    unknown = SAMPLE_VOCABULARY.read_text(encoding="utf-8").split("\n").index("[UNK]")
    assert all(
        token[0] != unknown
        for line in our_tokens(SAMPLE_VOCABULARY, list(squad_texts(SAMPLE)))
        for token in line
    )


# The blocks in use; the rest of Unicode has no character but for private use, of which these are some.
CODE_POINTS = [
    *range(0x32400),
    *range(0xE0000, 0xE0200),
    *range(0xF0000, 0xF0100),
    *range(0x10FF00, 0x110000),
]


@pytest.fixture(scope="module")
def character_vocabulary(tmp_path_factory):
    """A vocabulary in which every code point that normalization can produce shows, alone and behind 'a'."""
    program("bert_tokenize")  # skips here, before the long part
    path = tmp_path_factory.mktemp("characters") / "vocab.txt"
    normalizer = reference_tokenizer(SAMPLE_VOCABULARY)._tokenizer.normalizer
    characters = {"a"}
    for code in CODE_POINTS:
        if not 0xD800 <= code < 0xE000:
            characters.update(normalizer.normalize_str(chr(code)))
            characters.add(chr(code))
    characters -= set(" \n\r")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text(
        "\n".join(special + sorted(characters) + ["##" + c for c in sorted(characters)]),
        encoding="utf-8",
        newline="\n",
    )
    return path


@pytest.mark.parametrize("lower_case", [True, False])
def test_every_code_point_equals_transformers(character_vocabulary, lower_case):
    # A lower case that only newer Unicode tables than Python's know is not in ICU's tables either.
    normalizer = reference_tokenizer(SAMPLE_VOCABULARY)._tokenizer.normalizer
    words = []
    for code in CODE_POINTS:
        character = chr(code)
        if 0xD800 <= code < 0xE000 or character == "\n":
            continue
        if unicodedata.category(character) == "Cn" and normalizer.normalize_str(character) != character:
            continue
        words.append(f"a{character}a")
    compare(
        character_vocabulary, [" ".join(words[i : i + 100]) for i in range(0, len(words), 100)], lower_case
    )


def test_random_sequences_equal_transformers(character_vocabulary):
    generator = random.Random(7)
    blocks = (
        (0x20, 0x7F),
        (0xA0, 0x250),
        (0x300, 0x370),
        (0x370, 0x400),
        (0x590, 0x600),
        (0x900, 0x980),
        (0x1E00, 0x2070),
        (0x3000, 0x3100),
        (0x4E00, 0x4E40),
        (0xAC00, 0xAC80),
    )
    # Two marks are left out that are kept but may swap places with their neighbours: then the reference gives
    # them the neighbour's offsets.
    pool = [chr(c) for block in blocks for c in range(*block) if c not in (0x302E, 0x302F)]
    pool += ["[SEP]", "[MASK]", "[", "]", " ", " "] * 40
    compare(character_vocabulary, ["".join(generator.choices(pool, k=30)) for _ in range(20000)])


@pytest.mark.parametrize(
    "text, message",
    [
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", ": the special tokens [MASK] are missing"),
        ("[PAD]\n\n[UNK]\n", ": the special tokens [SEP], [CLS], [MASK] are missing"),
        ("[PAD]\n[UNK]\ra\n", ":2: a carriage return inside the line"),
    ],
)
def test_bad_vocabulary_is_named(tmp_path, text, message):
    path = tmp_path / "vocab.txt"
    path.write_text(text, newline="")
    result = subprocess.run(
        [program("bert_tokenize"), str(path)], input=b"a\n", capture_output=True, timeout=60
    )
    assert result.returncode == 1
    assert result.stderr.decode().startswith(f"error: {path}{message}")
