/** Child processes of this node, counted over all servers, against the operator's limit. */
export class ProcessQuota {
  /** May be changed at any time; what runs already goes on. */
  max: number;
  #taken = 0;

  constructor(max: number) {
    this.max = max;
  }

  get full(): boolean {
    return this.#taken >= this.max;
  }

  take(): void {
    this.#taken++;
  }

  release(): void {
    this.#taken--;
  }
}
