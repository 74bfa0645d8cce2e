import type { NodeLimits } from './node-limits.ts';

/** Child processes of this node, counted over all servers, against the operator's limit. */
export class ProcessQuota {
  readonly #limits: NodeLimits;
  #taken = 0;

  constructor(limits: NodeLimits) {
    this.#limits = limits;
  }

  get max(): number {
    return this.#limits.maxProcesses;
  }

  get full(): boolean {
    return this.#taken >= this.#limits.maxProcesses;
  }

  take(): void {
    this.#taken++;
  }

  release(): void {
    this.#taken--;
  }
}
