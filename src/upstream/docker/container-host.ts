import { OWNER_LABEL, RUN_LABEL, SERVER_LABEL, sweepContainers } from './container.ts';
import { Engine } from './engine.ts';
import { engineAddress } from './engine-address.ts';

export interface ContainerHostDeps {
  /** What the containers of this data folder's gateways are known by. */
  readonly owner: string;
  /** This process among those gateways; never the same twice. */
  readonly run: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** So many containers of a gateway that was killed were removed. */
  readonly swept: (count: number) => void;
}

/** Requests to an engine that does not answer fail after this; a container that is slow to stop is waited for. */
const ENGINE_TIMEOUT_MS = 10_000;

/**
 * The engines that containers of this gateway run on. An engine that is used for the first time is swept: what another
 * gateway of the same data folder left there when it was killed is removed. Only one gateway at a time has the folder.
 */
export class ContainerHost {
  readonly #deps: ContainerHostDeps;
  readonly #engines = new Map<string, Promise<Engine>>();

  constructor(deps: ContainerHostDeps) {
    this.#deps = deps;
  }

  /** `written` is the address of a definition, null for the usual one. Rejects in words for people; the next call tries anew. */
  engine(written: string | null): Promise<Engine> {
    const key = written ?? '';
    let engine = this.#engines.get(key);
    if (engine === undefined) {
      engine = this.#begin(written);
      this.#engines.set(key, engine);
      engine.catch(() => this.#engines.delete(key));
    }
    return engine;
  }

  /** What a container of this server is marked with. */
  labels(server: string): Readonly<Record<string, string>> {
    const { owner, run } = this.#deps;
    return { [SERVER_LABEL]: server, [OWNER_LABEL]: owner, [RUN_LABEL]: run };
  }

  async #begin(written: string | null): Promise<Engine> {
    const { owner, run, environment, swept } = this.#deps;
    const engine = new Engine(engineAddress(written, environment), ENGINE_TIMEOUT_MS);
    const count = await sweepContainers(engine, owner, run);
    if (count > 0) swept(count);
    return engine;
  }
}
