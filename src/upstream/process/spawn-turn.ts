let taken = false;
const waiting: (() => void)[] = [];

/**
 * Null when a process may be started now, else the wait for that: one is started in each turn of the event loop of this
 * process, whoever wants it. The system takes milliseconds for each, and calls to other servers go on in between.
 */
export function spawnTurn(): Promise<void> | null {
  if (taken) return new Promise((resolve) => waiting.push(resolve));
  taken = true;
  setImmediate(next);
  return null;
}

function next(): void {
  const first = waiting.shift();
  if (first === undefined) {
    taken = false;
    return;
  }
  setImmediate(next);
  first();
}
