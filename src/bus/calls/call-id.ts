/** Which call. Numbers, because every frame has one: the family is random and its caller's own, the number counts its calls. */
export interface CallId {
  readonly family: number;
  readonly number: number;
}

/** As it stands in subjects: sixteen hexadecimal digits. */
export function callText({ family, number }: CallId): string {
  return hex(family) + hex(number);
}

/** Null where the text is not one of those. */
export function callOf(text: string): CallId | null {
  if (!CALL.test(text)) return null;
  return { family: Number.parseInt(text.slice(0, 8), 16), number: Number.parseInt(text.slice(8), 16) };
}

const CALL = /^[0-9a-f]{16}$/;

function hex(number: number): string {
  return number.toString(16).padStart(8, '0');
}
