import { answerInputs, type DeclaredInputs } from '../document/inputs.ts';
import { type Node, withTexts } from '../document/node.ts';
import { secretNameOf } from './without-secrets.ts';

/** An input that an offered document needs from its user. */
export interface OfferedInput {
  readonly id: string;
  readonly description: string;
  readonly secret: boolean;
}

const INPUT = /\$\{input:([^}]{0,256})\}/g;

/** The inputs of an offered document, whose definitions are later read without it. `values`: the user's answers. */
export async function offeredInputs(
  declared: DeclaredInputs,
  text: string,
  env: Readonly<Record<string, string | undefined>>,
  values: Readonly<Record<string, string>>,
) {
  // Without declared inputs, since the definition is later read without its document.
  const known = await answerInputs(new Map(), text, env, null);
  const givenTo = (id: string): string | undefined => (Object.hasOwn(values, id) ? values[id] || undefined : undefined);
  const isSecret = (id: string): boolean => !declared.has(id) || declared.get(id)!.password === true;
  const escaped = (value: string): string => value.replaceAll('${', () => '$${');
  const changed = (written: string, value: (id: string) => string | undefined): string =>
    written.replaceAll(INPUT, (reference: string, id: string) => value(id) ?? reference);
  const open = (id: string): string | undefined => {
    if (known.has(id)) return undefined;
    const value = givenTo(id);
    if (value !== undefined) return isSecret(id) ? undefined : escaped(value);
    const usual = declared.get(id)?.default ?? undefined;
    return usual === undefined ? undefined : escaped(usual);
  };
  return {
    known,
    /** Replaces references whose values may be in a definition. */
    complete: (written: string): string => changed(written, open),
    /** Replaces references to secret inputs as well. */
    filled: (written: string): string =>
      changed(written, (id) => {
        const value = known.has(id) ? undefined : givenTo(id);
        return value === undefined ? undefined : escaped(value);
      }),
    /** Replaces references to secret inputs by references to secrets, which it adds to `secrets`. */
    referring: (written: string, server: string, secrets: Map<string, string>): string =>
      changed(written, (id) => {
        const value = known.has(id) ? undefined : givenTo(id);
        if (value === undefined) return undefined;
        const secret = secretNameOf(server, id);
        secrets.set(secret, value);
        return `\${secret:${secret}}`;
      }),
    missing: (node: Node): readonly OfferedInput[] => {
      const found = new Set<string>();
      withTexts(node, (written) => {
        for (const [, id = ''] of written.matchAll(INPUT)) found.add(id);
        return written;
      });
      return [...found]
        .filter((id) => !known.has(id) && givenTo(id) === undefined)
        .map((id) => ({ id, description: declared.get(id)?.description ?? '', secret: isSecret(id) }));
    },
  };
}
