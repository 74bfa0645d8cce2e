/** Error codes after which a new server may exist nevertheless. `http`: a proxy answered. */
const UNSURE = ['outcome_unknown', 'no_such_server', 'unreachable', 'http'];

/** Whether the server may exist although adding it failed with this code; then the secrets that it needs must stay. */
export function mayHaveBeenAdded(code: unknown): boolean {
  return UNSURE.includes(String(code));
}
