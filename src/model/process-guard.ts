/** What a start gives: a pid, or none when it failed. */
export interface Startable {
  readonly pid?: number | undefined;
}

/**
 * Port: what sees to it that a process group dies with the gateway, however the gateway dies. A group is guarded from
 * the first instant of its leader until it is unregistered, when nothing of it is left.
 */
export interface ProcessGuard {
  /**
   * Starts one process, leader of a group of its own, by calling `spawn` at once and registers it. `mark` has to be in
   * its environment: a gateway that is killed between the start and the registration leaves a process behind that
   * nothing could identify otherwise.
   */
  start<T extends Startable>(spawn: (mark: Readonly<Record<string, string>>) => T): T;
  unregister(group: number): void;
}
