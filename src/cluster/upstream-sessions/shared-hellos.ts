import type { UpstreamSessionRecord } from '../../model/ports.ts';

interface Hello {
  readonly text: string;
  sessions: number;
}

/** What a server says of itself is the same for all its sessions, nearly always: kept once, for as long as one has it. */
export class SharedHellos {
  readonly #hellos = new Map<string, Hello>();

  get size(): number {
    return this.#hellos.size;
  }

  /** The record as it is to be kept, until it is `left`. */
  taken(record: UpstreamSessionRecord): UpstreamSessionRecord {
    const known = this.#hellos.get(record.identity);
    if (known === undefined) this.#hellos.set(record.identity, { text: record.hello, sessions: 1 });
    if (known?.text !== record.hello) return record;
    known.sessions++;
    return { ...record, hello: known.text };
  }

  left({ identity, hello }: UpstreamSessionRecord): void {
    const known = this.#hellos.get(identity);
    if (known?.text === hello && --known.sessions === 0) this.#hellos.delete(identity);
  }
}
