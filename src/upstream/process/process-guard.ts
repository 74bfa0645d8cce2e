/**
 * Port: what sees to it that a process group dies with the gateway, however the gateway dies. A group is registered
 * right after its process was started and unregistered when nothing of it is left.
 */
export interface ProcessGuard {
  /** Resolves when a group registered from now on is guarded. Never rejects: without a guard the gateway still works. */
  ready(): Promise<void>;
  register(group: number): void;
  unregister(group: number): void;
}
