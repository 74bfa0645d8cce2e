/** Refusals of a new server after which it may be there nevertheless. `http`: a proxy answered. */
const UNSURE = ['outcome_unknown', 'no_such_server', 'unreachable', 'http'];

/** Whether a server may be there although adding it failed with this code: what it needs is not to be removed then. */
export function mayBeAdded(code: unknown): boolean {
  return UNSURE.includes(String(code));
}
