# SPDX-License-Identifier: Apache-2.0
"""Tokenizers in the files that transformers reads and writes: ids against AutoTokenizer's, before and after saving.

RUEDA_BIN names the folder of the built programs; with RUEDA_DATA lines of real texts are among those compared.
RUEDA_FULL_COMPARISON, set to anything, compares 200 configurations on 2,000 lines each instead of 20 on 300.
"""

import functools
import json
import os
import pathlib
import random
import subprocess
import unicodedata

import pytest

from bert_reference import program, squad_texts

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

FULL = bool(os.environ.get("RUEDA_FULL_COMPARISON"))
CONFIGURATIONS, LINES = (200, 2000) if FULL else (20, 300)
BATCH = 10  # configurations in one test

NAMES = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
OTHER_NAMES = {"unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<Mask>"}
ADDED = ["NewWord", "straße", "İstanbul", "漢字", "foo bar", "[unused7]", "é", "<|end|>", "x", "ΣΑΣ"]

# Characters of which lines are made, in groups: letters with accents, scripts, and what is cleaned away.
GROUPS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "éèêëàâçñõüöäßøåæœşğıžšč", "ÉÈÊËÀÂÇÑÕÜÖÄẞØÅÆŒŞĞİŽŠČ",
    "e\u0301a\u0300u\u0308n\u0303c\u0327i\u0307", "ΑΒΓΣΩαβγσςωάήίό", "ЖЗИЙЯжзийяёЁ", "漢字中文世界日本語", "ひらがなカタカナ", "한국어각\u1100\u1161\u11a8",
    "مرحبا\u064b\u0651العالم", "שלום\u05b8\u05c1", "नमस्ते\u094d", "สวัสดี", "😀👩👍🏽❤️\u200d🇩🇪", "\u200b\u200c\u200d\ufeff\u2060\u00ad\u200e", "\x01\x02\x07\x7f\x80\x9f\x1c\x0b\x0c\r\t",
    "\u00a0\u2003\u3000\u2028\u2029\u1680\u202f", ".,;:!?-–—…«»“”‘’()[]{}<>/\\|@#$%^&*_+=~`'\"", "\ue000\uf8ff\U000f0000", "\ufb01\u2126\u212b\u1e9b\u0323\u00bd\u2460\uff21", "\ufffd\u0378\u0000",
]


def generated_line(generator):
    pieces = []
    for _ in range(generator.randint(1, 12)):
        kind = generator.random()
        if kind < 0.08:
            pieces.append(generator.choice([*NAMES.values(), *OTHER_NAMES.values()]))
        elif kind < 0.18:
            added = generator.choice(ADDED)
            pieces.append(generator.choice([added, added.upper(), added.lower(), f"a{added}b"]))
        elif kind < 0.20:
            pieces.append(generator.choice("aé漢-") * generator.choice([5, 99, 100, 101, 130]))
        else:
            groups = generator.choices(GROUPS, k=2)
            pieces.append("".join(generator.choice(generator.choice(groups)) for _ in range(generator.randint(1, 9))))
    line = "".join(piece + generator.choice(["", " ", " ", "  "]) for piece in pieces)
    return generator.choice([line, line, unicodedata.normalize("NFC", line), unicodedata.normalize("NFD", line)])


@functools.lru_cache(maxsize=1)
def real_lines():
    folder = os.environ.get("RUEDA_DATA")
    if not folder:
        return []
    lines = []
    for name in ("gutenberg/grimm-tales.txt", "wikitext-2/valid.txt", "movie-reviews/imdb_labelled.txt"):
        with open(os.path.join(folder, name), encoding="utf-8", newline="\n") as file:
            lines += [line.rstrip("\n") for line in file if line.strip()]
    squad = os.path.join(folder, "squad")
    for name in sorted(os.listdir(squad)):
        if name.endswith(".json"):
            lines += [line for text in squad_texts(pathlib.Path(squad, name)) for line in text.split("\n")]
    return lines


def make_lines(generator):
    real = real_lines()
    count = LINES // 2 if real else 0
    lines = generator.sample(real, count) + [generated_line(generator) for _ in range(LINES - count)]
    return [line.replace("\n", " ") for line in lines]


def make_vocabulary(generator, names, lines):
    """Special tokens, characters and pieces of the lines as they are and normalized, whole and as continuations."""
    pieces = set()
    for line in lines:
        for form in (line, line.lower(), unicodedata.normalize("NFD", line), unicodedata.normalize("NFD", line.lower())):
            pieces.update(form)
        for word in generator.sample(words := line.split(), min(2, len(words))):
            begin = generator.randrange(len(word))
            pieces.add(generator.choice([word, word.lower()])[begin : begin + generator.randint(1, 6)])
    pieces = sorted(piece for piece in pieces if piece and not any(c in piece for c in "\n\r") and piece == piece.strip())
    pieces = [piece for piece in pieces if piece not in names.values() and generator.random() < 0.95]
    tokens = pieces + ["##" + piece for piece in pieces if generator.random() < 0.9]
    generator.shuffle(tokens)
    special = list(names.values())
    generator.shuffle(special)
    position = generator.choice([0, len(tokens) // 2, len(tokens)])
    return tokens[:position] + special + tokens[position:]


def flags(generator):
    return {flag: generator.random() < 0.3 for flag in ("single_word", "lstrip", "rstrip", "normalized")}


def write_json(path, document):
    plain = json.dumps(document)
    ascii_only = len(plain) % 2 == 0  # either way of writing letters, but one for one document
    path.write_text(plain if ascii_only else json.dumps(document, ensure_ascii=False), encoding="utf-8")


class Configuration:
    """One folder of a tokenizer, drawn by `seed`."""

    def __init__(self, folder, seed):
        self.folder, self.generator = folder, random.Random(seed)
        generator = self.generator
        self.lines = make_lines(generator)
        self.names = dict(generator.choice([NAMES, NAMES, OTHER_NAMES, NAMES | {"mask_token": "<Mask>"}]))
        self.vocabulary = make_vocabulary(generator, self.names, self.lines)
        self.normalizer = {
            "lowercase": generator.random() < 0.6,
            "strip_accents": generator.choice([None, None, True, False]),
            "handle_chinese_chars": generator.random() < 0.7,
        }
        folder.mkdir()
        write_json(folder / "config.json", {"model_type": "bert"})
        self.layout = generator.choice(["vocabulary", "vocabulary", "four", "five", "saved", "generic"])
        getattr(self, f"write_{self.layout}")()

    def settings(self):
        settings = {"do_lower_case": self.normalizer["lowercase"], "strip_accents": self.normalizer["strip_accents"],
                    "tokenize_chinese_chars": self.normalizer["handle_chinese_chars"], "tokenizer_class": "BertTokenizer"}
        for key, default in (("do_lower_case", True), ("strip_accents", None), ("tokenize_chinese_chars", True)):
            if settings[key] == default and self.generator.random() < 0.5:
                del settings[key]
        if self.generator.random() < 0.3:
            del settings["tokenizer_class"]
        if self.generator.random() < 0.5:
            settings["model_max_length"] = self.generator.choice([128, 512, 1e30])
        return settings

    def named(self, key):
        token = self.names[key]
        if self.generator.random() < 0.7:
            return token
        return {"__type": "AddedToken", "content": token, "lstrip": self.generator.random() < 0.5, "rstrip": False,
                "single_word": False, "normalized": self.generator.random() < 0.3}

    def ids(self):
        """As transformers counts them: of a token that stands on several lines the last one."""
        return {token: index for index, token in enumerate(self.vocabulary)}

    def added_tokens(self):
        ids, following, added = self.ids(), len(self.ids()), {}
        for token in self.generator.sample(ADDED, self.generator.randint(0, 4)):
            if token in self.names.values() or token in added:
                continue
            added[token] = ids.get(token, following)
            following = max(following, added[token] + 1)
        return added

    def write_vocabulary(self):
        """vocab.txt as people make it, and the files of versions before 4.34 beside it."""
        generator = self.generator
        lines = list(self.vocabulary)
        if generator.random() < 0.4:
            lines.insert(generator.randrange(len(lines)), "")
        if generator.random() < 0.4:  # the later one counts
            lines.insert(generator.randrange(len(lines) // 2), lines[-generator.randint(1, len(lines) // 3)])
        self.vocabulary = lines
        end = generator.choice(["\n", "\r\n"])
        text = end.join(lines) + generator.choice(["", end])
        if lines[0] not in self.names.values() and generator.random() < 0.2:
            text = "\ufeff" + text
        (self.folder / "vocab.txt").write_text(text, encoding="utf-8", newline="")
        settings = self.settings()
        names = {key: self.named(key) for key in self.names if self.names[key] != NAMES[key] or generator.random() < 0.5}
        repeated = len(self.ids()) != len(lines) or text[0] == "\ufeff"  # then ids of added tokens are others' already
        added = {} if repeated else self.added_tokens()
        if generator.random() < 0.5:
            settings.update(names)
            if generator.random() < 0.3:
                settings["additional_special_tokens"] = [generator.choice(self.vocabulary[:50]) or "x"]
            if generator.random() < 0.3 and not repeated:
                settings["bos_token"] = "<bos>"
        else:
            for token in names.values():
                if isinstance(token, dict):
                    del token["__type"]
            write_json(self.folder / "special_tokens_map.json", names)
        if added:
            write_json(self.folder / "added_tokens.json", added)
        if settings != {"tokenizer_class": "BertTokenizer"} or generator.random() < 0.5:
            write_json(self.folder / "tokenizer_config.json", settings)

    def tokenizer_json(self, added, **model):
        ids = self.ids()
        backend = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token=self.names["unk_token"], **model))
        backend.normalizer = tokenizers.normalizers.BertNormalizer(clean_text=True, **self.normalizer)
        backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        first, last = self.names["cls_token"], self.names["sep_token"]
        backend.post_processor = self.generator.choice([
            tokenizers.processors.BertProcessing((last, ids[last]), (first, ids[first])),
            tokenizers.processors.TemplateProcessing(single=f"{first}:0 $A:0 {last}:0", pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
                                                     special_tokens=[(first, ids[first]), (last, ids[last])])])
        for content, token_flags in added.items():
            token = tokenizers.AddedToken(content, **token_flags)
            backend.add_special_tokens([token]) if content in self.names.values() else backend.add_tokens([token])
        return json.loads(backend.to_str())

    def all_added(self):
        """Special tokens, and others with flags; by their ids."""
        added = {name: {"normalized": False, "special": True} for name in self.names.values()}
        for content in self.added_tokens():
            added[content] = flags(self.generator) | {"special": False}
        ids, following = self.ids(), len(self.ids())
        order = sorted(added, key=lambda token: ids.get(token, following + 1))
        return {token: added[token] for token in order}

    def write_four(self):
        """As transformers 4 saves a fast tokenizer."""
        document = self.tokenizer_json(self.all_added())
        write_json(self.folder / "tokenizer.json", document)
        (self.folder / "vocab.txt").write_text("".join(token + "\n" for token in self.vocabulary), encoding="utf-8", newline="")
        decoder = {str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in document["added_tokens"]}
        write_json(self.folder / "tokenizer_config.json",
                   self.settings() | self.names | {"added_tokens_decoder": decoder, "clean_up_tokenization_spaces": True})
        write_json(self.folder / "special_tokens_map.json", self.names)

    def write_five(self):
        """As transformers 5 saves it."""
        write_json(self.folder / "tokenizer.json", self.tokenizer_json(self.all_added()))
        settings = self.settings() | self.names | {"backend": "tokenizers", "is_local": True}
        write_json(self.folder / "tokenizer_config.json", settings)

    def write_saved(self):
        """By the installed version itself."""
        (self.folder / "vocab.txt").write_text("".join(token + "\n" for token in self.vocabulary), encoding="utf-8", newline="")
        write_json(self.folder / "tokenizer_config.json", self.settings() | self.names)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        tokenizer.add_tokens([tokenizers.AddedToken(content, **flags(self.generator)) for content in self.added_tokens()])
        os.remove(self.folder / "vocab.txt")
        tokenizer.save_pretrained(self.folder)

    def write_generic(self):
        """A tokenizer.json that counts in all it says."""
        generator = self.generator
        prefix = generator.choice(["##", "##", "@@", ""])
        if prefix != "##":
            self.vocabulary = list(dict.fromkeys(
                prefix + token[2:] if token.startswith("##") and len(token) > 2 else token for token in self.vocabulary))
        added = self.all_added()
        if generator.random() < 0.3:
            added.pop(self.names["mask_token"])
        document = self.tokenizer_json(added, continuing_subword_prefix=prefix,
                                       max_input_chars_per_word=generator.choice([100, 5, 200]))
        document["normalizer"]["clean_text"] = generator.random() < 0.5
        if generator.random() < 0.3:
            document["normalizer"] = {"type": "Sequence", "normalizers": [document["normalizer"]]}
        elif generator.random() < 0.3:
            document["normalizer"] = None
            document["added_tokens"] = [token for token in document["added_tokens"] if not token["normalized"]]
            following = len(self.ids())
            for token in document["added_tokens"]:
                if token["id"] >= following:
                    token["id"], following = following, following + 1
        write_json(self.folder / "tokenizer.json", document)
        named = {key: value for key, value in self.names.items() if generator.random() < 0.6}
        for key in ("pad_token", "mask_token"):  # no other part of the files says what these are
            if self.names[key] != NAMES[key]:
                named[key] = self.names[key]
        write_json(self.folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"} | named)


def test_a_listed_token_that_versions_look_for_differently_is_refused(tmp_path):
    """The installed version looks in the normalized text, transformers 4 in the text itself."""
    (tmp_path / "vocab.txt").write_text("\n".join([*NAMES.values(), *"newtok", *["##" + letter for letter in "newtok"]]) + "\n")
    words = len((tmp_path / "vocab.txt").read_text().splitlines())
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": True})
    write_json(tmp_path / "special_tokens_map.json", {"additional_special_tokens": ["NewTok"]})
    write_json(tmp_path / "added_tokens.json", {"NewTok": words})
    done = subprocess.run([program("bert_tokenize"), str(tmp_path)], input="newtok\n", capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and 'it lists the token "NewTok" of added_tokens.json' in done.stderr, done
    # The remedy is one.
    saved = tmp_path / "saved"
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    reference.save_pretrained(saved)
    lines = ["NewTok newtok", "aNEWTOKb", "new tok"]
    compare("saved again", lines, reference(lines, add_special_tokens=False)["input_ids"], our_ids(saved, lines))


def our_ids(folder, lines, *options):
    done = subprocess.run([program("bert_tokenize"), *map(str, options), str(folder)], input="".join(line + "\n" for line in lines).encode(),
                          capture_output=True, timeout=300)
    assert done.returncode == 0, f"{folder}: {done.stderr.decode()}"
    rows = done.stdout.decode().split("\n")[:-1]
    assert len(rows) == len(lines)
    return [[int(token) for token in row.split()] for row in rows]


def compare(where, lines, wanted, found):
    different = [case for case in zip(lines, wanted, found) if case[1] != case[2]]
    assert not different, f"{where}: {len(different)} of {len(lines)} lines differ; the first: {different[0]}"


@pytest.mark.parametrize("batch", range(CONFIGURATIONS // BATCH))
def test_ids_equal_those_of_auto_tokenizer(tmp_path, batch):
    program("bert_tokenize")
    layouts = {}
    for seed in range(batch * BATCH, batch * BATCH + BATCH):
        configuration = Configuration(tmp_path / str(seed), seed)
        where = f"configuration {seed}, {configuration.layout}"
        lines = configuration.lines
        reference = transformers.AutoTokenizer.from_pretrained(configuration.folder)
        wanted = reference(lines, add_special_tokens=False)["input_ids"]
        saved = tmp_path / f"{seed}-saved"
        compare(where, lines, wanted, our_ids(configuration.folder, lines, "--save", saved))
        # What is written is the same tokenizer for all that read it.
        write_json(saved / "config.json", {"model_type": "bert"})
        compare(f"{where}, saved, here", lines, wanted, our_ids(saved, lines))
        again = transformers.AutoTokenizer.from_pretrained(saved)
        compare(f"{where}, saved, transformers", lines, wanted, again(lines, add_special_tokens=False)["input_ids"])
        assert again("a", "b")["input_ids"] == reference("a", "b")["input_ids"], where
        assert type(again) is type(reference), where
        layouts[configuration.layout] = layouts.get(configuration.layout, 0) + 1
    print(f"{BATCH} configurations of {LINES} lines are equal: {layouts}")
    assert len(layouts) >= 2
