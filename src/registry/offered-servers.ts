import type { ConfigProblem } from '../config/problem/problem.ts';
import { type Offer, readOffered } from '../config/read-offered.ts';
import type { OfferedInput } from '../config/server/offered-inputs.ts';
import type { ListenSettings } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import type { Server } from '../model/server.ts';
import { isSameServer } from '../model/servers-diff.ts';
import { placeOf } from './merged-desire.ts';
import type { Registry } from './registry.ts';
import { type Caller, definitionInvalid, nameTaken, refuseBeyondRights } from './run-time-problem.ts';
import type { RunTimeServers } from './run-time-servers.ts';
import { type DefinitionSources, withinPublic } from './stored-definitions.ts';

interface OfferedServersDeps extends Pick<DefinitionSources, 'env' | 'secrets'> {
  /** Folder for definitions that name none. */
  readonly folder: string;
  /** Address at which clients reach this gateway. */
  address(): Pick<ListenSettings, 'host' | 'port'>;
  readonly desired: Pick<Registry, 'state'>;
  readonly runTime: Pick<RunTimeServers, 'provenance'>;
}

/** A server that could be added. */
interface OfferedView {
  readonly name: string;
  /** The definition for `addServer`. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** Secrets to store before the server is added: values by name. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Whether an equal server exists already. */
  readonly there: boolean;
  /** Why it cannot be added; null if it can, or if it exists already. */
  readonly taken: string | null;
}

interface OfferedViews {
  readonly servers: readonly OfferedView[];
  /** Inputs without a value; servers that require one of them are not in `servers`. */
  readonly lacking: readonly OfferedInput[];
  readonly warnings: readonly ConfigProblem[];
}

/** Reads servers offered as text, such as a command line or a client's file, with all checks of adding. Adds nothing. */
export class OfferedServers {
  readonly #deps: OfferedServersDeps;

  constructor(deps: OfferedServersDeps) {
    this.#deps = deps;
  }

  /** Rejects with RunTimeProblem, as adding by this caller would. */
  async read(offer: Offer, caller: Caller): Promise<OfferedViews> {
    const { folder, env, secrets: stored, desired } = this.#deps;
    const { allowedCommands } = desired.state;
    const result = await readOffered(offer, {
      folder,
      env,
      stored,
      listen: this.#deps.address(),
      keepsSecrets: caller.exec,
      mayRead: (name, needs) => refuseBeyondRights(needs, caller, allowedCommands, name),
    });
    if (!result.ok) throw definitionInvalid(result.problems);
    const servers = result.servers.map(({ definition, secrets, server }) => {
      const { name } = server;
      return {
        name,
        definition: { name, ...definition },
        secrets: Object.fromEntries(secrets),
        ...this.#found(server),
      };
    });
    return { servers, lacking: result.lacking, warnings: result.warnings };
  }

  #found(server: Server): Pick<OfferedView, 'there' | 'taken'> {
    const { servers } = this.#deps.desired.state;
    const { name } = server;
    const found = [...servers.values()].find((one) => foldedName(one.name) === foldedName(name));
    if (found === undefined) return { there: false, taken: null };
    // The server may have been added with other rights.
    if ([server, withinPublic(server)].some((one) => isSameServer(one, found))) return { there: true, taken: null };
    const isStored = this.#deps.runTime.provenance(found.name)?.source !== 'file';
    return { there: false, taken: nameTaken(name, found.name, isStored ? null : placeOf(found)).message };
  }
}
