import { WireClient } from '../wire-client.ts';

const CHANGED = 'notifications/tools/list_changed';

/** A client that connects while servers start: it lists the tools once, and again only when notified of a change. */
export class ColdClient {
  readonly #client: WireClient;
  #stream: { drop(): void; message(): Promise<{ method: string } | null> } | null = null;
  #listening: Promise<void> = Promise.resolve();
  /** Names of each list, in order. */
  readonly lists: string[][] = [];

  constructor(url: string, era: 'stateful' | 'stateless') {
    this.#client = new WireClient(url, era);
  }

  get era(): string {
    return this.#client.era;
  }

  async start(): Promise<void> {
    if (this.#client.era === 'stateful') {
      await this.#client.initialize();
      this.#stream = await this.#client.listen();
    } else {
      this.#stream = await this.#client.listening({ toolsListChanged: true });
    }
    this.lists.push(await this.#client.toolNames());
    this.#listening = this.#listen(this.#stream);
  }

  async stop(): Promise<void> {
    this.#stream?.drop();
    await this.#listening;
  }

  async #listen(stream: { message(): Promise<{ method: string } | null> }): Promise<void> {
    for (;;) {
      const message = await stream.message().catch(() => null);
      if (message === null) return;
      if (message.method === CHANGED) this.lists.push(await this.#client.toolNames());
    }
  }
}
