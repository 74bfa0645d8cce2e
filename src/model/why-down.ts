interface DownServer {
  readonly name: string;
  readonly reason: string | null;
  readonly endpoint?: string | null;
  readonly lastLaunchFailure?: { readonly likelyCause: string | null } | null;
}

/** Why a server is down, without its name; with the remedy for a remote server, because a process reports its own. */
export function whyDown({ name, reason, endpoint, lastLaunchFailure }: DownServer): string {
  const cause = endpoint == null ? null : (lastLaunchFailure?.likelyCause ?? null);
  return `${withoutName(reason ?? '', name)}${cause === null ? '' : `; ${cause}`}`;
}

export function withoutName(reason: string, name: string): string {
  for (const begin of [`${name} could not be started: `, `the process of ${name} `, `${name}: `])
    reason = reason.startsWith(begin) ? reason.slice(begin.length) : reason;
  return reason;
}
