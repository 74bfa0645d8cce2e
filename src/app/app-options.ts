import type { LoadOptions } from '../config/load-config.ts';
import type { ConfigProblem } from '../config/problem/problem.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Tracker } from '../model/operation.ts';
import type { ServerChangeListener, UpstreamEvents } from '../model/ports.ts';
import type { ServerStatus } from '../model/server-state.ts';
import type { Instance } from '../store/data-folder.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ConditionEvents } from '../telemetry/server-events.ts';
import type { SpanExporter } from '../telemetry/tracing.ts';
import type { UpstreamSetDeps } from '../upstream/server-context.ts';
import type { MemoryServerFactory } from '../upstream/transport/memory-transport.ts';
import type { ClusterConnection } from './cluster/cluster-connection.ts';

export interface AppOptions {
  /** Where the desired state comes from: resolved `files`, or a command line. */
  readonly load: LoadOptions;
  readonly logger: Logger;
  /**
   * Where state outlives the process. `data`: in the data folder, which one gateway holds. `instance`: in a subfolder for its
   * set of files, if no other gateway holds that. `none`: nowhere (embedding without a folder). `look`: nowhere, but the
   * run-time store applies (one-off commands).
   */
  readonly state: 'data' | 'instance' | 'none' | 'look';
  /** Joins the cluster of the configuration although it keeps no state. */
  readonly joins?: boolean;
  readonly follow: boolean;
  /** The arguments that start it again in the background; null or absent if it does not run there. */
  readonly restartArgs?: readonly string[] | null;
  /** In-process servers by key, for definitions of type `memory`. */
  readonly memoryServers?: ReadonlyMap<string, MemoryServerFactory>;
  /** Changes the desired state of the files; the caller runs `App.applyOverlay` when its result has changed. */
  readonly overlay?: (state: DesiredState) => DesiredState;
  /** The cluster to join, instead of that of the configuration. */
  readonly cluster?: ClusterConnection;
  /** Called after every operation; null or absent for none. */
  readonly tracker?: Tracker | null;
  /** Takes the spans of requests, instead of a configured receiver. Without either, trace contexts pass through unchanged. */
  readonly spans?: SpanExporter | null;
  readonly observer?: ServerObserver;
}

/** Called for every change. Must not block; only `beforeAuthRequired` may throw. */
export interface ServerObserver
  extends Pick<UpstreamEvents, 'catalogChanged'>,
    Pick<ServerChangeListener, 'recovery' | 'listItemInvalid' | 'loginNeeded'>,
    Pick<UpstreamSetDeps, 'beforeAuthRequired'>,
    ConditionEvents {
  /** `desired`: false if the server was removed. */
  statusChanged(server: string, status: ServerStatus, desired: boolean): void;
}

/** Why a gateway could not be built; the user can correct all of these. */
export type OpenProblem =
  | { readonly kind: 'config'; readonly problems: readonly ConfigProblem[] }
  | { readonly kind: 'bind'; readonly message: string }
  /** The data folder cannot be written, or other users may write to it. */
  | { readonly kind: 'folder'; readonly message: string; readonly remedy: string }
  /** The run-time store is damaged or cannot be reached (F35). */
  | { readonly kind: 'truth'; readonly file: string; readonly message: string; readonly remedy: string }
  /** Another gateway holds the data folder. */
  | { readonly kind: 'held'; readonly dataDir: string; readonly holder: Instance | null };
