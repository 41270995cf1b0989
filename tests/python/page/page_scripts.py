# SPDX-License-Identifier: Apache-2.0
"""Scripts that the tests of the live page evaluate in it."""

CONTRASTS = """(() => {
    const light = (color) => { const parts = color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]; };
    const ground = (one) => { for (; one; one = one.parentElement) { const color = getComputedStyle(one).backgroundColor;
        if (!/, 0\\)$/.test(color)) return color; } };
    const contrast = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
    const texts = [...document.querySelectorAll('body *')].filter((one) => one.offsetParent && !one.closest('svg, .plot, noscript')
        && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
    return { texts: texts.length, low: texts.map((one) => [one.innerText, contrast(getComputedStyle(one).color, ground(one))]).filter(([, ratio]) => ratio < 4.5),
             phases: [...document.querySelectorAll('.key')].map((one) => contrast(getComputedStyle(one).backgroundColor, getComputedStyle(document.querySelector('.bar')).backgroundColor)) };
})()"""

# Random spans with and without gaps, some much shorter than a pixel; each pixel against the sums of all spans in it.
PAINTED = """Promise.all([import('/spans.js'), import('/stream_pixels.js')]).then(([{ SpanRing, kPhases }, { StreamPixels }]) => {
    let seed = 7;
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647, width = 200, left = 3, seconds = 10, wrong = [];
    for (let round = 0; round < 40; ++round) {
        const ring = new SpanRing(4096), spans = [];
        for (let at = random() * 6; at < 14;) {
            const end = at + (random() < 0.5 ? 0.004 : 0.4) * random() + 1e-6, phase = Math.floor(random() * kPhases.length);
            spans.push([phase, at, end]);
            at = end + (random() < 0.3 ? 0.1 * random() : 0);
        }
        if (round % 2) spans.sort(() => random() - 0.5);
        for (const [phase, begin, end] of spans) ring.add(kPhases[phase], 1, begin, end);
        const pixels = new StreamPixels();
        pixels.resize(width, 2, 3, 1);
        pixels.setColors(kPhases.map((_, phase) => 100 + phase), 1, 2);
        pixels.paint([ring, undefined], left, seconds);
        for (let pixel = 0; pixel < width; ++pixel) {
            const from = left + pixel * seconds / width, to = from + seconds / width, sums = kPhases.map(() => 0);
            for (const [phase, begin, end] of spans) sums[phase] += Math.max(0, Math.min(end, to) - Math.max(begin, from));
            const most = Math.max(...sums), got = pixels.pixels[pixel], below = pixels.pixels[width + pixel];
            if (most > 1e-5 ? Math.abs((sums[got - 100] ?? 0) - most) > 1e-6 || below !== got : most === 0 && got !== 1) wrong.push([round, pixel, got, sums.indexOf(most)]);
        }
        if (pixels.pixels[2 * width] !== 2 || pixels.pixels[3 * width] !== 1) wrong.push([round, 'rows']);
        kPhases.forEach((_, phase) => { const sum = spans.filter(([other]) => other === phase)
            .reduce((all, [, begin, end]) => all + Math.max(0, Math.min(end, left + seconds) - Math.max(begin, left)), 0);
            if (Math.abs(sum - pixels.seconds[phase]) > 1e-3) wrong.push([round, 'seconds', phase]); });
    }
    return wrong;
})"""

KEPT = """import('/spans.js').then(({ SpanRing, SpanStore }) => {
    const ring = new SpanRing(1024);
    for (let step = 0; step < 3000; ++step) ring.add('step', step, step, step + 0.5);
    const store = new SpanStore();
    store.setRanks(2);
    store.add(Array.from({ length: 100 }, (_, step) => [1, 'data', step, step, step + 0.5]), 40);
    return [ring.size, ring.span(0).step, ring.span(ring.size - 1).step, ring.after(2500.7), store.rings[1].size, store.rings[0].size];
})"""

WORDS_OF_DATES = """import('/words.js').then(({ clockTime, dateInWords, isDate }) => {
    const at = (...date) => new Date(...date).getTime() / 1000, now = at(2026, 4, 3, 14, 0);
    return [isDate(now), [8.7e12, NaN, Infinity, null, undefined, '12'].map(isDate), clockTime(8.7e12), dateInWords(at(2026, 4, 3, 16, 40), now),
            dateInWords(at(2026, 4, 4, 1, 5), now), dateInWords(at(2026, 4, 9, 16, 40), now), dateInWords(at(2031, 4, 9, 16, 40), now),
            dateInWords(at(2027, 0, 1, 0, 30), at(2026, 11, 31, 23, 0))];
})"""
