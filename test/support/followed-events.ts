type Event = Readonly<Record<string, unknown>>;

/** Opens the event stream; the function reads up to the first event that `isLast` accepts, and closes the stream. */
export async function followed(
  controlUrl: string,
  token: string,
): Promise<(isLast: (event: Event) => boolean) => Promise<readonly Event[]>> {
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(20_000)]);
  const { body } = await fetch(`${controlUrl}/api/v1/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal,
  });
  return async (isLast) => {
    let text = '';
    const events = (): readonly Event[] => [...text.matchAll(/^data: (.*)\n/gm)].map(([, json]) => JSON.parse(json!));
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (events().some(isLast)) break;
    }
    stop.abort();
    return events();
  };
}
