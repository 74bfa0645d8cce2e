/** Runs tasks one after the other, in the order of their calls. A task that fails does not stop the later ones. */
export class OneAtATime {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }
}
