// SPDX-License-Identifier: Apache-2.0
// The events of ruedarun. Each connection begins with all that is known, so the page starts afresh with its first event.
const kRetry = 3000, kUnseen = 60000;

export class Feed {
  // `page` has the functions fresh(), job(job), update(update) and connection(state), with the states connected, lost, refused,
  // full (too many watch) and unseen. A window that nobody sees for a minute lets go: a browser has six connections to a server, and a job that nobody watches
  // sends nothing.
  constructor(address, page) {
    this.address = address;
    this.page = page;
    this.ended = this.unseen = false;
    document.addEventListener("visibilitychange", () => this.look());
    this.connect();
  }

  look() {
    clearTimeout(this.leaving);
    if (document.hidden) {
      this.leaving = setTimeout(() => this.leave(), kUnseen);
    } else if (this.unseen) {
      this.unseen = false;
      this.connect();
    }
  }

  leave() {
    if (this.ended) return;
    this.unseen = true;
    this.source.close();
    this.page.connection("unseen");
  }

  connect() {
    if (this.ended || this.unseen) return;
    const source = this.source = new EventSource(this.address);
    let isFresh = true;
    const receive = (name) => source.addEventListener(name, (event) => {
      if (isFresh) this.page.fresh();
      isFresh = false;
      this.page[name](JSON.parse(event.data));
    });
    receive("job");
    receive("update");
    source.addEventListener("open", () => {
      isFresh = true;
      this.page.connection("connected");
    });
    source.addEventListener("error", () => this.fail());
  }

  async fail() {
    if (this.ended || this.unseen) return;
    const isOver = this.source.readyState === EventSource.CLOSED;
    this.page.connection(isOver ? await this.refusal() : "lost");
    if (isOver) setTimeout(() => this.connect(), kRetry);  // else the browser connects again
  }

  // The reason that an EventSource does not tell.
  async refusal() {
    try {
      const answer = await fetch(this.address);
      answer.body?.cancel();
      return answer.ok ? "lost" : answer.status === 503 ? "full" : "refused";
    } catch {
      return "lost";
    }
  }

  // The job has ended, and ruedarun leaves. The page keeps the last state.
  end() {
    this.ended = true;
    this.source.close();
  }
}
