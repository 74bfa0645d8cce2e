import type { LoadOptions } from '../config/load-config.ts';
import type { ConfigProblem } from '../config/problem/problem.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Tracker } from '../model/operation.ts';
import type { ServerNews, UpstreamEvents } from '../model/ports.ts';
import type { ServerStatus } from '../model/server-state.ts';
import type { Instance } from '../store/data-folder.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ConditionNews } from '../telemetry/server-events.ts';
import type { SpanExporter } from '../telemetry/tracing.ts';
import type { UpstreamSetDeps } from '../upstream/server-context.ts';
import type { MemoryServerFactory } from '../upstream/transport/memory-transport.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';

export interface AppOptions {
  /** Where desired state comes from; `files` resolved, or a command line. */
  readonly load: LoadOptions;
  readonly logger: Logger;
  /**
   * Where state outlives the process. `data`: in the data folder, which one gateway holds. `instance`: in a folder of its
   * own beside it, one for each set of files, if that is free. `none`: nowhere (embedding without a folder). `look`: nowhere,
   * but what was decided at run time holds (one-off commands).
   */
  readonly state: 'data' | 'instance' | 'none' | 'look';
  /** Becomes a node of the cluster that the configuration names although it keeps no state. */
  readonly joins?: boolean;
  readonly follow: boolean;
  /** The words that start it again in the background; absent: it was not started there. */
  readonly words?: readonly string[] | null;
  /** In-process servers by key, for definitions of type `memory`. */
  readonly memoryServers?: ReadonlyMap<string, MemoryServerFactory>;
  /** What is desired beside the files; `App.overlaid` says that it has changed. */
  readonly overlay?: (state: DesiredState) => DesiredState;
  /** Joins a cluster whose nodes share this process. */
  readonly cluster?: ClusterConnection;
  /** Hears of every operation. Null and absent: none does. */
  readonly tracker?: Tracker | null;
  /** Takes the spans of requests. Absent or null: none are made, and traces of peers pass through as they are. */
  readonly spans?: SpanExporter | null;
  readonly observer?: ServerObserver;
}

/** Called for every change. It must not block, and only `beforeAuthRequired` may throw. */
export interface ServerObserver
  extends Pick<UpstreamEvents, 'catalogChanged'>,
    Pick<ServerNews, 'recovery' | 'listItemInvalid' | 'loginNeeded'>,
    Pick<UpstreamSetDeps, 'beforeAuthRequired'>,
    ConditionNews {
  /** `desired`: it was not taken away. */
  statusChanged(server: string, status: ServerStatus, desired: boolean): void;
}

/** Why a gateway could not be built. Expected, all of it: the reader is a person who can mend it. */
export type OpenProblem =
  | { readonly kind: 'config'; readonly problems: readonly ConfigProblem[] }
  | { readonly kind: 'bind'; readonly message: string }
  /** The data folder cannot be written, or others may write to it. */
  | { readonly kind: 'folder'; readonly message: string; readonly remedy: string }
  /** What was decided at run time is damaged (F35). */
  | { readonly kind: 'truth'; readonly file: string; readonly message: string; readonly remedy: string }
  /** Another gateway has the data folder. */
  | { readonly kind: 'held'; readonly dataDir: string; readonly holder: Instance | null };
