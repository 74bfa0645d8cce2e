/** The result of a start: a process with its pid, or without one if the start failed. */
export interface Startable {
  readonly pid?: number | undefined;
}

/**
 * Port: ensures that a process group dies with the gateway, however the gateway dies. A group is guarded from the start of
 * its leader until it is unregistered, when no process of it is left.
 */
export interface ProcessGuard {
  /**
   * Starts one process, leader of a new group, by calling `spawn` at once, and registers it. The environment of the process
   * must contain `mark`: it identifies a process whose gateway was killed between the start and the registration.
   */
  start<T extends Startable>(spawn: (mark: Readonly<Record<string, string>>) => T): T;
  unregister(group: number): void;
}
