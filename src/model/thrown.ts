/** Errors of a start are wrapped a few times on their way to a caller. */
const MAX_DEPTH = 8;

/** The message of whatever was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The stack of whatever was thrown. */
export function stackOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}

/** The error and its causes, outermost first. */
export function* causes(error: unknown): Generator<Error> {
  for (let at = error, depth = 0; at instanceof Error && depth < MAX_DEPTH; at = at.cause, depth++) yield at;
}
