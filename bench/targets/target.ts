/** The servers behind the target. A peer that only runs local commands has `stdio`. */
export interface Scene {
  /** The measured server over HTTP: `url` of its stateful and of its stateless run. */
  readonly statefulUrl: string;
  readonly statelessUrl: string;
  /** The whole list of all fleet servers in one, for targets that do not merge. */
  readonly wholeListUrl: string;
  /** Fifty servers of twenty tools: `${fleetUrl}/1` and so on. */
  readonly fleetUrl: string;
  /** Command line of the measured server over stdio. */
  readonly stdioCommand: readonly string[];
}

/** Which upstream a scenario wants. */
export type Behind = 'stateful' | 'stateless' | 'stdio' | 'fleet';

export interface Running {
  readonly url: string;
  /** Further addresses of a target with several doors, which get the same load at the same time. */
  readonly alsoUrls?: readonly string[];
  readonly toolPrefix: string;
  /** The processes whose CPU and memory count: the target's own, without the servers it runs. */
  pids(): readonly number[];
  /** Other processes that work for it; their use is shown separately. */
  besidePids?(): readonly number[];
  stop(): Promise<void>;
}

/** A program between client and server, by name. */
export interface Target {
  readonly name: string;
  /** Measured only in scenarios that name it. */
  readonly named?: boolean;
  /** Limit of sessions in a load of calls; lower for a peer that may start a process per session. */
  readonly maxSessions: number;
  /** True when it is measured with that behind it. */
  canServe(behind: Behind): boolean;
  /** Rejects when it cannot run here; the row then says so. */
  start(scene: Scene, behind: Behind): Promise<Running>;
}
