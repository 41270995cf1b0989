#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes squad_sample.json, squad2_sample.json, nq_sample.jsonl, text_sample.txt and vocab.txt: a small question
answering data set for trying out train_bert, some of it with questions that have no answer (SQuAD v2.0), some of it in
the form of Natural Questions for --task nq, and its paragraphs as running text for --task mlm, distill and evaluate_lm.

Each paragraph tells where one thing comes from and where it went; six questions ask for its parts. The wording is
regular, so that a small BERT with random parameters learns it in some hundred steps. No thing occurs in two
paragraphs, so articles held out ask about things, and mostly people, never seen in training. Same output on every
run; standard library only.
"""

import argparse
import collections
import json
import pathlib
import random
import unicodedata

ARTICLES = 46
PARAGRAPHS = 6  # per article

COLOURS = "red blue green white black yellow golden silver brown grey purple orange pink copper ivory".split()
THINGS = (
    "lamp table bowl clock chair mirror vase bell basket kettle carpet statue violin cradle ladder wagon lantern "
    "compass teapot cabinet necklace puppet kite drum flute saddle anchor bench mask globe"
).split()
FIRST_NAMES = (
    "Ana Omar José Zoë Ivan Mei Lena Tariq Noor Pavel Ingrid Hugo Amara Kofi Søren Yuki Rosa Emil Leïla Bruno "
    "Chidi Dana Elif Farid Greta Hana Iker Jonas Karin Luca"
).split()
LAST_NAMES = (
    "Costa Haddad Núñez Keller Petrov Chen Okafor Larsen Müller Rossi Novák Tanaka Silva Brandt Dubois "
    "Eriksen Fischer Güneş Horvat Ito Jansen Kaya Lind Moreau"
).split()
CITIES = (
    "Lisbon Cairo Porto Oslo Zürich Lagos Prague Kyoto Lima Dublin Málaga Vienna Riga Tunis Bergen Quito Ghent "
    "Kraków Izmir Havana Turin Basel Hanoi Split"
).split()
SITES = "library museum school theatre palace station hospital harbour garden castle".split()

MADE = [
    "The {thing} was made by {maker} in {origin} in {made}.",
    "In {made}, {maker} made the {thing} in {origin}.",
    "The {thing} was made in {origin} by {maker} in {made}.",
]
BOUGHT = [
    "{buyer} bought it for {price} coins.",
    "It was bought by {buyer} for {price} coins.",
    "For {price} coins it was bought by {buyer}.",
]
STANDS = [
    "Today it stands in {site}.",
    "It now stands in {site} for all to see.",
    "Repaired and cleaned, it stands today in {site}.",
]
ASIDES = [
    "Nobody knows why.",
    "It needed much care.",
    "Many people came to look at it.",
    "“What a fine thing!”, they said.",
    "",
]
QUESTIONS = [
    ("Who made the {thing}?", "maker"),
    ("Where was the {thing} made?", "origin"),
    ("When was the {thing} made?", "made"),
    ("Who bought the {thing}?", "buyer"),
    ("How many coins did the {thing} cost?", "price"),
    ("Where does the {thing} stand today?", "site"),
]

# Of SQuAD v2.0: few, each paragraph with as many questions that it answers as that it does not.
V2_ARTICLES = 4
V2_PARAGRAPHS = 2
V2_QUESTIONS = 3

NQ_EXAMPLES = 120
# Of all five types of answers. The words that tell which it is come first, as in real questions.
NQ_QUESTIONS = [
    ("who made the {thing}", "short"),
    ("tell all of the {thing}", "long"),
    ("is the {thing} of this museum", "yes"),
    ("was the {thing} lost", "no"),
    ("who made the {thing}", "unknown"),
]

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WHOLE_WORD_COUNT = 20  # a rarer word is cut into a stem and an ending


def make_paragraph(generator, thing, identifier):
    maker, buyer = (f"{first} {generator.choice(LAST_NAMES)}" for first in generator.sample(FIRST_NAMES, 2))
    origin, seat = generator.sample(CITIES, 2)
    facts = {
        "thing": thing,
        "maker": maker,
        "buyer": buyer,
        "origin": origin,
        "made": str(generator.randint(1600, 1999)),
        "price": str(generator.randint(20, 999)),
        "site": f"the {generator.choice(SITES)} of {seat}",
    }
    sentences = [
        generator.choice(MADE),
        generator.choice(BOUGHT),
        generator.choice(ASIDES),
        generator.choice(STANDS),
    ]
    context, positions = "", {}
    for sentence in filter(None, sentences):
        context += " " if context else ""
        for index, part in enumerate(sentence.replace("}", "{").split("{")):  # text and field in turn
            if index % 2 == 1:
                positions.setdefault(part, len(context))
                part = facts[part]
            context += part
    questions = []
    for number, (wording, field) in enumerate(QUESTIONS):
        assert context[positions[field] :].startswith(facts[field])
        questions.append(
            {
                "id": f"{identifier}-{number}",
                "question": wording.format(thing=thing),
                "answers": [{"text": facts[field], "answer_start": positions[field]}],
            }
        )
    return {"context": context, "qas": questions}


def make_articles(generator):
    things = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]
    generator.shuffle(things)
    articles = []
    for article in range(ARTICLES):
        paragraphs = [
            make_paragraph(generator, things.pop(), f"sample-{article}-{paragraph}")
            for paragraph in range(PARAGRAPHS)
        ]
        articles.append({"title": f"Things with a history {article + 1}", "paragraphs": paragraphs})
    return articles


def make_v2_paragraph(paragraph, other):
    """Questions that the paragraph answers, and questions about the thing of another, which it does not."""
    asked = [
        {**question, "answers": question["answers"] * 2, "is_impossible": False}
        for question in paragraph["qas"][:V2_QUESTIONS]
    ]
    for question, mine in zip(other["qas"][:V2_QUESTIONS], paragraph["qas"]):
        asked.append(
            {
                "id": mine["id"] + "-none",
                "question": question["question"],
                "answers": [],
                "plausible_answers": mine["answers"],
                "is_impossible": True,
            }
        )
    return {"context": paragraph["context"], "qas": asked}


def make_v2_articles(articles):
    made = []
    for article in articles[:V2_ARTICLES]:
        paragraphs = article["paragraphs"][:V2_PARAGRAPHS]
        others = article["paragraphs"][V2_PARAGRAPHS:]
        made.append(
            {
                "title": article["title"],
                "paragraphs": [make_v2_paragraph(*pair) for pair in zip(paragraphs, others)],
            }
        )
    return made


def make_nq_line(generator, articles, number):
    """One example of the simplified form: three paragraphs of an article, and a question about one of them."""
    article = generator.choice(articles)
    paragraphs = generator.sample(article["paragraphs"], 3)
    wording, kind = NQ_QUESTIONS[number % len(NQ_QUESTIONS)]
    asked = paragraphs[number // len(NQ_QUESTIONS) % len(paragraphs)]
    about = asked
    if kind == "unknown":  # a thing of another article
        about = generator.choice(generator.choice([other for other in articles if other is not article])["paragraphs"])
    thing = about["qas"][0]["question"].removeprefix("Who made the ").removesuffix("?")
    words = ["<H1>", *article["title"].split(), "</H1>"]
    candidates, long_answer, short_answers = [], {"start_token": -1, "end_token": -1, "candidate_index": -1}, []
    for paragraph in paragraphs:
        start, text = len(words), paragraph["context"]
        words += ["<P>", *spaced(text).split(), "</P>"]
        span = {"start_token": start, "end_token": len(words)}
        if paragraph is asked and kind != "unknown":
            long_answer = {**span, "candidate_index": len(candidates)}
        if paragraph is asked and kind == "short":
            answer = paragraph["qas"][0]["answers"][0]
            begin = start + 1 + len(spaced(text[: answer["answer_start"]]).split())
            short_answers = [{"start_token": begin, "end_token": begin + len(answer["text"].split())}]
        candidates.append({**span, "top_level": True})
    annotation = {
        "annotation_id": number,
        "long_answer": long_answer,
        "short_answers": short_answers,
        "yes_no_answer": kind.upper() if kind in ("yes", "no") else "NONE",
    }
    return {
        "example_id": number,
        "question_text": wording.format(thing=thing),
        "document_text": " ".join(words),
        "document_url": "",
        "long_answer_candidates": candidates,
        "annotations": [annotation],
    }


def spaced(text):
    """Natural Questions has spaces around punctuation."""
    return "".join(f" {c} " if unicodedata.category(c)[0] == "P" else c for c in text)


def words_of(text):
    """The words BertTokenizer looks up, of text without control characters and CJK ideographs."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn").lower()
    spaced = "".join(f" {c} " if unicodedata.category(c)[0] in "PS" else c for c in plain)
    return spaced.split()


def pieces_of(word, count):
    """How the vocabulary cuts a word: numbers in pairs of digits, rare words in two."""
    if word.isdigit() and len(word) > 2:
        return [word[:2], "##" + word[2:]]
    if word.isdigit() or count >= WHOLE_WORD_COUNT or len(word) < 5:
        return [word]
    return [word[:3], "##" + word[3:]]


def make_vocabulary(articles):
    counts = collections.Counter()
    for article in articles:
        for paragraph in article["paragraphs"]:
            counts.update(words_of(paragraph["context"]))
            for question in paragraph["qas"]:
                counts.update(words_of(question["question"]))
    pieces = {piece for word, count in counts.items() for piece in pieces_of(word, count)}
    # Any other ASCII text, and any character of the sample, can be spelled.
    letters = set("abcdefghijklmnopqrstuvwxyz0123456789") | {c for word in counts for c in word}
    pieces |= letters | {"##" + letter for letter in letters} | set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    return SPECIAL_TOKENS + sorted(pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path(__file__).parent, help="folder for the files"
    )
    folder = parser.parse_args().output
    articles = make_articles(random.Random(20))
    sample = json.dumps({"version": "1.1", "data": articles}, ensure_ascii=False, indent=1)
    (folder / "squad_sample.json").write_text(sample + "\n", encoding="utf-8")
    second = json.dumps({"version": "v2.0", "data": make_v2_articles(articles)}, ensure_ascii=False)
    (folder / "squad2_sample.json").write_text(second + "\n", encoding="utf-8")
    generator = random.Random(21)
    examples = [make_nq_line(generator, articles, number) for number in range(NQ_EXAMPLES)]
    (folder / "nq_sample.jsonl").write_text(
        "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples), encoding="utf-8"
    )
    (folder / "text_sample.txt").write_text(
        "\n".join(paragraph["context"] + "\n" for article in articles for paragraph in article["paragraphs"]),
        encoding="utf-8",
    )
    (folder / "vocab.txt").write_text(
        "".join(token + "\n" for token in make_vocabulary(articles)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
