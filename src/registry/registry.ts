import { isDeepStrictEqual } from 'node:util';
import type { DesiredState } from '../model/desired-state.ts';
import { Secret } from '../model/secret.ts';
import { diffServers, type ServersDiff } from '../model/servers-diff.ts';

/** The names of all settings of the desired state. */
type SettingName = Exclude<keyof DesiredState, 'servers' | 'files'>;

export interface RegistryChange {
  /** Increases by one with every change; the first state has 1. */
  readonly version: number;
  readonly state: DesiredState;
  readonly servers: ServersDiff;
  readonly settings: readonly SettingName[];
}

type RegistryListener = (change: RegistryChange) => void;

/**
 * Adds to the state of the files, such as servers added at run time. `inForce`: whether the result replaces the state; if not, the
 * layer changes nothing.
 */
type Layer = (state: DesiredState, inForce: boolean) => DesiredState;

/**
 * The versioned desired state: what the files say, and over it the layers in their order. An equal state calls no listener.
 * Listeners are called in order, never during another report: later changes wait, and only the newest is reported. If a
 * listener fails, `replace` throws its failure after calling all of them.
 */
export class Registry {
  #files: DesiredState;
  readonly #layers: Layer[] = [];
  #state: DesiredState;
  #version = 1;
  #reported: DesiredState;
  #reporting = false;
  #closed = false;
  readonly #listeners = new Set<RegistryListener>();

  constructor(files: DesiredState) {
    this.#files = files;
    this.#state = files;
    this.#reported = files;
  }

  /** Takes effect with the next change or `begin`. */
  addLayer(layer: Layer): void {
    this.#layers.push(layer);
  }

  get state(): DesiredState {
    return this.#state;
  }

  /** The state of the files. */
  get files(): DesiredState {
    return this.#files;
  }

  /** Applies the layers to the first state, before there are listeners. */
  begin(): void {
    this.#state = this.#layered(this.#files, true);
    this.#reported = this.#state;
  }

  get version(): number {
    return this.#version;
  }

  /** Whether replacing the files by these would be a change. */
  differs(files: DesiredState): boolean {
    return isChange(this.plan(files));
  }

  /** What replacing the files by these would change. */
  plan(files: DesiredState): Pick<RegistryChange, 'servers' | 'settings' | 'state'> {
    const state = this.#layered(files, false);
    return { state, ...differences(this.#state, state) };
  }

  /** Makes the files' present state the desired state, below the layers. Returns false if the result equals the current one. */
  replace(files: DesiredState): boolean {
    if (this.#closed) return false;
    const state = this.#layered(files, true);
    const equal = !isChange(differences(this.#state, state));
    // Kept even if equal: the positions of definitions in their files may have changed.
    this.#files = files;
    this.#state = state;
    if (equal) return false;
    this.#version++;
    this.#report();
    return true;
  }

  /** Call when a layer has changed. */
  refresh(): boolean {
    return this.replace(this.#files);
  }

  /** After this, nothing changes any more. */
  close(): void {
    this.#closed = true;
  }

  /** Calls `listener` with every change from now on. The returned function ends that. */
  onChange(listener: RegistryListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #layered(files: DesiredState, inForce: boolean): DesiredState {
    return this.#layers.reduce((state, layer) => layer(state, inForce), files);
  }

  #report(): void {
    if (this.#reporting) return;
    this.#reporting = true;
    const failures: unknown[] = [];
    for (;;) {
      const diff = differences(this.#reported, this.#state);
      if (!isChange(diff)) break;
      const change = { version: this.#version, state: this.#state, ...diff };
      this.#reported = this.#state;
      for (const listener of [...this.#listeners]) {
        try {
          listener(change);
        } catch (error) {
          failures.push(error);
        }
      }
    }
    this.#reporting = false;
    if (failures.length > 0) throw new AggregateError(failures, 'a listener of the registry failed');
  }
}

function settingsOf(state: DesiredState): readonly SettingName[] {
  const { servers: _servers, files: _files, ...settings } = state;
  return Object.keys(settings) as SettingName[];
}

function differences(before: DesiredState, after: DesiredState): Pick<RegistryChange, 'servers' | 'settings'> {
  return {
    servers: diffServers(before.servers, after.servers),
    settings: settingsOf(after).filter((name) => !isDeepStrictEqual(revealed(before[name]), revealed(after[name]))),
  };
}

function isChange({ servers, settings }: Pick<RegistryChange, 'servers' | 'settings'>): boolean {
  const { added, removed, changed, updated } = servers;
  return settings.length + added.length + removed.length + changed.length + updated.length > 0;
}

/** The value with the texts of its secrets, which `isDeepStrictEqual` ignores. */
export function revealed(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (value instanceof Map) return new Map([...value].map(([key, one]) => [key, revealed(one)]));
  if (Array.isArray(value)) return value.map(revealed);
  if (typeof value !== 'object' || value === null || value instanceof Set) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, revealed(one)]));
}
