import { useSignal } from '@preact/signals';
import { Code } from '../../parts/code.tsx';
import { choicesOf, type FormSchema, resolved, textOf, typeOf, variantsOf } from '../playground/schema.ts';

const DEEPEST = 6;
/** Each level divides what is left among its members, so that a schema that refers to itself ends. */
const MOST_NODES = 2_000;
/** Of a type in words, at its first level; half as many at each further one. */
const MOST_VARIANTS = 16;

/** A schema for people, and as it is. */
export function SchemaView({ title, schema }: { readonly title: string; readonly schema: object }) {
  const raw = useSignal(false);
  return (
    <section>
      <div class="schema-title">
        <h3>{title}</h3>
        <button type="button" class="plain" aria-pressed={raw.value} onClick={() => (raw.value = !raw.value)}>
          {raw.value ? 'Readable' : 'As JSON'}
        </button>
      </div>
      {raw.value ? (
        <Code>{JSON.stringify(schema, null, 2)}</Code>
      ) : (
        <Members schema={resolved(schema, schema)} root={schema} depth={0} left={MOST_NODES} />
      )}
    </section>
  );
}

interface LevelProps {
  readonly schema: FormSchema;
  readonly root: FormSchema;
  readonly depth: number;
  readonly left: number;
}

function Members({ schema, root, depth, left }: LevelProps) {
  const members = Object.entries(schema.properties ?? {});
  if (depth > 0 && members.length > left) return null;
  const share = left / members.length;
  if (members.length === 0) return <p class="soft">No parameters are named.</p>;
  return (
    <ul class="schema">
      {members.map(([name, member]) => {
        const own = resolved(member, root);
        return (
          <li key={name}>
            <code>{name}</code> <span class="soft">{typeText(own, root)}</span>
            {schema.required?.includes(name) === true ? <span class="badge">required</span> : null}
            {own.default === undefined ? null : <span class="soft"> default {textOf(own.default)}</span>}
            {own.description === undefined ? null : <p>{own.description}</p>}
            <Inside schema={own} root={root} depth={depth + 1} left={share} />
          </li>
        );
      })}
    </ul>
  );
}

function Inside({ schema, root, depth, left }: LevelProps) {
  if (depth > DEEPEST) return null;
  const inner = typeOf(schema) === 'array' ? resolved(schema.items, root) : schema;
  if (inner.properties !== undefined) return <Members schema={inner} root={root} depth={depth} left={left} />;
  if (choicesOf(inner) !== null) return null;
  const variants = variantsOf(inner).map((one) => resolved(one, root));
  if (!variants.some(({ properties }) => properties !== undefined)) return null;
  return (
    <ul class="schema">
      {variants.map((one, i) => (
        <li key={i}>
          <span class="soft">{one.title ?? `or ${typeText(one, root)}`}</span>
          {one.properties === undefined ? null : (
            <Members schema={one} root={root} depth={depth + 1} left={left / variants.length} />
          )}
        </li>
      ))}
    </ul>
  );
}

/** A type in a few words: `string[]`, `"a" | "b"`, `integer 1…10`. */
function typeText(schema: FormSchema, root: FormSchema, depth = 0): string {
  if (depth > DEEPEST) return 'any';
  const choices = choicesOf(schema);
  if (choices !== null) return choices.map(({ value }) => JSON.stringify(value)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const variants = variantsOf(schema);
  if (variants.length > 0)
    return [
      ...new Set(
        variants.slice(0, MOST_VARIANTS >> depth).map((one) => typeText(resolved(one, root), root, depth + 1)),
      ),
    ].join(' | ');
  const type = typeOf(schema);
  if (type === 'array')
    return `${schema.items === undefined ? 'any' : typeText(resolved(schema.items, root), root, depth + 1)}[]`;
  const { minimum, maximum, minLength, maxLength, format } = schema;
  const range = [minimum ?? minLength, maximum ?? maxLength];
  const limits = range.every((limit) => limit === undefined) ? '' : ` ${range[0] ?? ''}…${range[1] ?? ''}`;
  return `${type}${format === undefined ? '' : ` (${format})`}${limits}`;
}
