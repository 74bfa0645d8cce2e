import type { Clock } from '../model/clock.ts';
import type { SecretView } from '../model/credentials.ts';
import { OneAtATime } from '../model/one-at-a-time.ts';
import type { Sealing } from '../model/sealing.ts';
import { secretForms } from '../model/secret.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Records, SealedRecords } from './credential-store.ts';

interface KeptSecret {
  readonly value: string;
  readonly changedAt: number;
}

interface SecretsDeps {
  readonly records: Records;
  readonly sealing: Sealing;
  readonly clock: Pick<Clock, 'wall'>;
  readonly logger: Pick<Logger, 'addSecret'>;
}

/** The values of `${secret:NAME}`: set by an operator, sealed in the run-time store, and never shown. */
export class Secrets {
  /** By name, as last read; null for a secret that no key opens. */
  readonly values: ReadonlyMap<string, string | null>;
  readonly #values = new Map<string, string | null>();
  readonly #deps: SecretsDeps;
  readonly #records: SealedRecords<KeptSecret>;
  readonly #queue = new OneAtATime();

  constructor(deps: SecretsDeps) {
    this.values = this.#values;
    this.#deps = deps;
    this.#records = new SealedRecords(deps.records, deps.sealing, 'secrets');
  }

  /** Reads the store. Resolves with whether a value has changed. Rejects with StoreError. */
  refresh(): Promise<boolean> {
    // One at a time: of two concurrent reads the older one could be applied last.
    return this.#queue.run(() => this.#refresh());
  }

  async #refresh(): Promise<boolean> {
    const all = await this.#records.all();
    const now = new Map<string, string | null>(this.#records.unreadable.map((name) => [name, null]));
    for (const { key, value } of all) now.set(key, value.value);
    const same = now.size === this.#values.size && [...now].every(([name, value]) => this.#values.get(name) === value);
    if (same) return false;
    // The log must know the secrets before they are used.
    for (const { value } of all) for (const form of secretForms(value.value)) this.#deps.logger.addSecret(form);
    this.#values.clear();
    for (const [name, value] of now) this.#values.set(name, value);
    return true;
  }

  async list(): Promise<readonly SecretView[]> {
    const all = await this.#records.all();
    const views: SecretView[] = all.map(({ key: name, value }) => ({
      name,
      state: 'kept',
      changedAt: value.changedAt,
    }));
    views.push(...this.#records.unreadable.map((name) => ({ name, state: 'unreadable' as const, changedAt: null })));
    return views.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async put(name: string, value: string): Promise<SecretView> {
    const changedAt = this.#deps.clock.wall();
    await this.#records.put(name, { value, changedAt });
    return { name, state: 'kept', changedAt };
  }

  /** Resolves with false if there was none. */
  async delete(name: string): Promise<boolean> {
    const all = await this.#records.all();
    if (!all.some(({ key }) => key === name) && !this.#records.unreadable.includes(name)) return false;
    return this.#records.delete(name);
  }
}
