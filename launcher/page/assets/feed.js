// SPDX-License-Identifier: Apache-2.0
// The events of ruedarun. Each connection begins with all that is known, so the page starts afresh with its first event.
const kRetry = 3000;

export class Feed {
  // `page` has the functions fresh(), job(job), update(update) and connection(state), with the states connected, lost, refused.
  constructor(address, page) {
    this.address = address;
    this.page = page;
    this.ended = false;
    this.connect();
  }

  connect() {
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

  fail() {
    if (this.ended) return;
    const refused = this.source.readyState === EventSource.CLOSED;
    this.page.connection(refused ? "refused" : "lost");
    if (!refused) return;  // the browser connects again
    setTimeout(() => this.connect(), kRetry);
  }

  // The job has ended, and ruedarun leaves. The page keeps the last state.
  end() {
    this.ended = true;
    this.source.close();
  }
}
