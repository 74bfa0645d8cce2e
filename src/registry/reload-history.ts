import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../model/clock.ts';
import type { ConfigurationRecord } from '../model/configuration.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { serverChanges } from './plan.ts';
import type { RegistryChange } from './registry.ts';
import type { Reload } from './reload-report.ts';

const MAX_RECORDS = 100;

/** The last changes of the desired state, and refused readings. In memory, since the start. */
export class ReloadHistory {
  readonly #clock: Pick<Clock, 'wall'>;
  readonly #records: ConfigurationRecord[] = [];
  #before: DesiredState;
  #version = 1;

  constructor(clock: Pick<Clock, 'wall'>, state: DesiredState, problems: ConfigurationRecord['problems']) {
    this.#clock = clock;
    this.#before = state;
    this.#push({ result: 'started', servers: [], settings: [], problems });
  }

  /** Newest first. */
  get records(): readonly ConfigurationRecord[] {
    return this.#records.toReversed();
  }

  /** Records a reading whose problems differ from the last record's; returns whether it did. `recordChange` gets applied ones. */
  recordReading(reload: Reload): boolean {
    if (reload.kind === 'applied') return false;
    const problems = reload.kind === 'refused' ? reload.problems : reload.misconfigured;
    if (isDeepStrictEqual(this.#records.at(-1)?.problems, problems)) return false;
    this.#push({ result: problems.length > 0 ? 'refused' : 'applied', servers: [], settings: [], problems });
    return true;
  }

  recordChange({ version, state, servers, settings }: RegistryChange, problems: ConfigurationRecord['problems']): void {
    this.#version = version;
    this.#push({ result: 'applied', servers: serverChanges(this.#before, state, servers), settings, problems });
    this.#before = state;
  }

  #push(record: Omit<ConfigurationRecord, 'at' | 'version'>): void {
    this.#records.push({ at: new Date(this.#clock.wall()).toISOString(), version: this.#version, ...record });
    if (this.#records.length > MAX_RECORDS) this.#records.shift();
  }
}
