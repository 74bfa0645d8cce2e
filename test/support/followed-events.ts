/** Opens the event stream; the function reads on to the first text that has the word, and closes the stream. */
export async function followed(
  controlUrl: string,
  token: string,
): Promise<(word: string) => Promise<Record<string, unknown>[]>> {
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(20_000)]);
  const { body } = await fetch(`${controlUrl}/api/v1/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal,
  });
  return async (word) => {
    let text = '';
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (text.includes(word)) break;
    }
    stop.abort();
    return [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json!) as Record<string, unknown>);
  };
}
