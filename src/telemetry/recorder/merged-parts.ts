import { byTime } from '../journal.ts';

const ENTRY = /^\{"seq":\d+,"time":"([^"]+)"/;

/**
 * Merges the parts of a recording from several nodes, this node's first: messages ordered by time and numbered again. Lists the
 * nodes whose parts may be missing.
 */
export function mergedParts([own = '', ...others]: readonly string[], missing: readonly string[]): string {
  const missingLine = missing.length === 0 ? '' : `${JSON.stringify({ missing })}\n`;
  if (others.length === 0) return `${own}${missingLine}`;
  const [head, ...lines] = [own, ...others].flatMap((part, at) => part.split('\n').slice(at === 0 ? 0 : 1, -1));
  const entries = lines
    .flatMap((line) => {
      const time = ENTRY.exec(line)?.[1];
      return time === undefined ? [] : [{ line, time }];
    })
    .sort(byTime)
    .map(({ line }, at) => line.replace(/\d+/, String(at + 1)));
  const said = lines.filter((line) => !ENTRY.test(line));
  const stopped = said.findLast((line) => line.startsWith('{"stopped":'));
  // A node that serves a forwarded call does not know the client's endpoint.
  const descriptions = new Map<string, string>();
  for (const line of said) {
    const session = /^\{"session":"([^"]+)"/.exec(line)?.[1];
    if (session !== undefined && !descriptions.get(session)?.includes('"endpoint":"/')) descriptions.set(session, line);
  }
  const all = [head, ...descriptions.values(), ...entries, ...(stopped === undefined ? [] : [stopped])];
  return `${all.map((line) => `${line}\n`).join('')}${missingLine}`;
}
