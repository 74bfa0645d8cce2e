const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Runs `work` with a controller that Ctrl-C or SIGTERM aborts; the same one again ends this process. */
export async function abortedBySignals<T>(work: (stop: AbortController) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const interrupted = (): void => stop.abort();
  for (const signal of SIGNALS) process.once(signal, interrupted);
  try {
    return await work(stop);
  } finally {
    for (const signal of SIGNALS) process.removeListener(signal, interrupted);
  }
}
