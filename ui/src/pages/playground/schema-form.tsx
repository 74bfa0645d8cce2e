import { useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { isObject, type Json, type JsonObject, parseExact } from './exact-json.ts';
import { choicesOf, type Fault, type FormSchema, initialOf, resolved, textOf, typeOf, variantsOf } from './schema.ts';

interface FieldProps {
  readonly name: string;
  readonly schema: FormSchema;
  readonly root: FormSchema;
  readonly path: string;
  readonly required: boolean;
  readonly value: Json;
  readonly faults: readonly Fault[];
  /** `undefined`: the member is left out. */
  readonly onChange: (value: Json) => void;
}

interface SchemaFormProps {
  readonly schema: FormSchema;
  readonly value: JsonObject;
  readonly faults: readonly Fault[];
  readonly onChange: (value: JsonObject) => void;
}

/** A form for the values of an object, as its schema describes them. */
export function SchemaForm({ schema, value, faults, onChange }: SchemaFormProps) {
  const own = resolved(schema, schema);
  return (
    <div class="schema-form">
      <Members schema={own} root={schema} path="" value={value} faults={faults} onChange={onChange} />
    </div>
  );
}

interface MembersProps extends SchemaFormProps {
  readonly root: FormSchema;
  readonly path: string;
}

function Members({ schema, root, path, value, faults, onChange }: MembersProps) {
  const names = Object.entries(schema.properties ?? {});
  const set = (name: string, member: Json): void => {
    const { [name]: _, ...others } = value;
    onChange(member === undefined ? others : { ...value, [name]: member });
  };
  const isOpen =
    schema.additionalProperties !== false && (names.length === 0 || schema.additionalProperties !== undefined);
  const known = new Set(names.map(([name]) => name));
  const others = Object.fromEntries(Object.entries(value).filter(([name]) => !known.has(name)));
  return (
    <>
      {names.map(([name, member]) => (
        <Field
          key={name}
          name={name}
          schema={resolved(member, root)}
          root={root}
          path={`${path}/${name}`}
          required={schema.required?.includes(name) === true}
          value={value[name]}
          faults={faults}
          onChange={(next) => set(name, next)}
        />
      ))}
      {isOpen || Object.keys(others).length > 0 ? (
        <RawField
          label={names.length === 0 ? 'Any members' : 'Further members'}
          value={others}
          onChange={(next) => {
            const own = Object.fromEntries(Object.entries(value).filter(([name]) => known.has(name)));
            onChange({ ...own, ...(isObject(next) ? next : {}) });
          }}
        />
      ) : null}
    </>
  );
}

function Field(props: FieldProps) {
  const { name, schema, path, required, faults } = props;
  const id = useId();
  const own = faults.filter((fault) => fault.path === path);
  const title = schema.title !== undefined && schema.title !== name ? ` · ${schema.title}` : '';
  const nested = isNested(schema);
  const label = (
    <>
      <span class="field-name">{name}</span>{' '}
      <span class="field-type">
        {typeOf(schema)}
        {required ? ', required' : ''}
        {title}
      </span>
    </>
  );
  const notes = (
    <>
      {schema.description === undefined ? null : (
        <p class="field-help" id={`${id}-help`}>
          {schema.description}
        </p>
      )}
      {own.map(({ message }) => (
        <p key={message} class="field-fault" id={`${id}-fault`}>
          {message}
        </p>
      ))}
    </>
  );
  const described =
    `${schema.description === undefined ? '' : `${id}-help `}${own.length === 0 ? '' : `${id}-fault`}`.trim();
  if (nested)
    return (
      <fieldset class="field" data-path={path}>
        <legend>{label}</legend>
        {notes}
        <Control {...props} id={id} describedBy={described} wrong={own.length > 0} />
      </fieldset>
    );
  return (
    <div class="field" data-path={path}>
      <label for={id}>{label}</label>
      <Control {...props} id={id} describedBy={described} wrong={own.length > 0} />
      {notes}
    </div>
  );
}

function isNested(schema: FormSchema): boolean {
  if (choicesOf(schema) !== null) return false;
  return variantsOf(schema).length > 0 || ['object', 'array'].includes(typeOf(schema));
}

interface ControlProps extends FieldProps {
  readonly id: string;
  readonly describedBy: string;
  readonly wrong: boolean;
}

function Control(props: ControlProps) {
  const { schema, root, required, value, onChange, id, wrong } = props;
  const described = { id, 'aria-describedby': props.describedBy || undefined, 'aria-invalid': wrong };
  const choices = choicesOf(schema);
  if (choices !== null) {
    const at = choices.findIndex((one) => textOf(one.value) === textOf(value ?? null));
    return (
      <select
        {...described}
        value={value === undefined ? '' : String(at)}
        onChange={({ currentTarget }) =>
          onChange(currentTarget.value === '' ? undefined : choices[Number(currentTarget.value)]!.value)
        }
      >
        <option value="">{required ? 'Choose…' : 'Not given'}</option>
        {choices.map(({ title }, i) => (
          <option key={title} value={String(i)}>
            {title}
          </option>
        ))}
      </select>
    );
  }
  if (variantsOf(schema).length > 0) return <Variants {...props} />;
  switch (typeOf(schema)) {
    case 'boolean':
      return (
        <select
          {...described}
          value={value === undefined ? '' : String(value)}
          onChange={({ currentTarget }) =>
            onChange(currentTarget.value === '' ? undefined : currentTarget.value === 'true')
          }
        >
          <option value="">Not given</option>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      );
    case 'integer':
    case 'number':
      return (
        <input
          {...described}
          type="text"
          inputMode="decimal"
          value={value === undefined ? '' : textOf(value)}
          placeholder={schema.default === undefined ? '' : textOf(schema.default)}
          onInput={({ currentTarget }) => onChange(numberOf(currentTarget.value))}
        />
      );
    case 'object':
      return value === undefined ? (
        <button type="button" {...described} onClick={() => onChange(initialOf(schema, root, true) ?? {})}>
          Add {props.name}
        </button>
      ) : (
        <>
          <Members {...props} value={isObject(value) ? value : {}} onChange={onChange} />
          {required ? null : (
            <button type="button" class="plain" onClick={() => onChange(undefined)}>
              Leave out {props.name}
            </button>
          )}
        </>
      );
    case 'array':
      return <Items {...props} />;
    case 'string':
      return <TextControl {...props} />;
    default:
      return <RawField label={`${props.name} as JSON`} value={value} onChange={onChange} hidden />;
  }
}

const FORMATS: Readonly<Record<string, 'email' | 'url' | 'date'>> = { email: 'email', uri: 'url', date: 'date' };

function TextControl({ schema, value, onChange, id, describedBy, wrong, required }: ControlProps) {
  const common = {
    id,
    'aria-describedby': describedBy || undefined,
    'aria-invalid': wrong,
    value: value === undefined ? '' : textOf(value),
    placeholder: schema.default === undefined ? '' : textOf(schema.default),
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) =>
      onChange(currentTarget.value === '' && !required ? undefined : currentTarget.value),
  };
  const isLong = (schema.maxLength ?? 0) > 200 || (typeof value === 'string' && /\n|.{80}/.test(value));
  if (isLong) return <textarea {...common} rows={4} />;
  return <input {...common} type={(FORMATS[schema.format ?? ''] ?? 'text') as 'text'} />;
}

function Variants(props: ControlProps) {
  const { schema, root, value, required, onChange } = props;
  const variants = variantsOf(schema).map((one) => resolved(one, root));
  const chosen = useSignal(
    Math.max(
      0,
      variants.findIndex((one) => fits(value, one)),
    ),
  );
  const { oneOf: _one, anyOf: _any, ...base } = schema;
  const chosenOne = variants[chosen.value];
  const own = { ...base, ...chosenOne };
  // A variant that is a choice of variants again may lead back here: as JSON.
  const again = chosenOne !== undefined && choicesOf(chosenOne) === null && variantsOf(chosenOne).length > 0;
  return (
    <>
      <select
        aria-label={`Kind of ${props.name}`}
        value={String(chosen.value)}
        onChange={({ currentTarget }) => {
          chosen.value = Number(currentTarget.value);
          onChange(initialOf(variants[chosen.value]!, root, required));
        }}
      >
        {variants.map((one, i) => (
          <option key={i} value={String(i)}>
            {one.title ?? one.description?.slice(0, 60) ?? typeOf(one)}
          </option>
        ))}
      </select>
      {again ? (
        <RawField key={chosen.value} label={`${props.name} as JSON`} value={value} onChange={onChange} hidden />
      ) : typeOf(own) === 'null' ? null : (
        <Control {...props} schema={own} />
      )}
    </>
  );
}

function fits(value: Json, schema: FormSchema): boolean {
  const type = typeOf(schema);
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  if (type === 'integer') return typeof value === 'number';
  return typeof value === type;
}

function Items(props: ControlProps) {
  const { schema, root, value, path, faults, onChange, name } = props;
  const items = Array.isArray(value) ? (value as Json[]) : [];
  const own = resolved(schema.items, root);
  return (
    <>
      {items.map((item, i) => (
        <div key={i} class="field-item">
          <Field
            name={`${name} ${i + 1}`}
            schema={own}
            root={root}
            path={`${path}/${i}`}
            required
            value={item}
            faults={faults}
            onChange={(next) => onChange(items.with(i, next))}
          />
          <button
            type="button"
            class="plain"
            aria-label={`Remove ${name} ${i + 1}`}
            onClick={() => onChange(items.length === 1 && !props.required ? undefined : items.toSpliced(i, 1))}
          >
            ×
          </button>
        </div>
      ))}
      <button type="button" onClick={() => onChange([...items, initialOf(own, root, true) ?? ''])}>
        Add an item
      </button>
    </>
  );
}

interface RawFieldProps {
  readonly label: string;
  readonly value: Json;
  readonly onChange: (value: Json) => void;
  /** The label is there already, for those who see it. */
  readonly hidden?: boolean;
}

/** Values whose schema says nothing: JSON text. What is no JSON is not taken over, and said. */
function RawField({ label, value, onChange, hidden = false }: RawFieldProps) {
  const text = useSignal(value === undefined ? '' : JSON.stringify(value));
  const fault = useSignal<string | null>(null);
  const id = useId();
  return (
    <div class="field">
      <label for={id} class={hidden ? 'hidden' : 'field-name'}>
        {label} (JSON)
      </label>
      <textarea
        id={id}
        rows={2}
        spellcheck={false}
        value={text.value}
        aria-invalid={fault.value !== null}
        onInput={({ currentTarget }) => {
          text.value = currentTarget.value;
          try {
            onChange(text.value.trim() === '' ? undefined : parseExact(text.value));
            fault.value = null;
          } catch (error) {
            fault.value = `This is no JSON: ${(error as Error).message}`;
          }
        }}
      />
      {fault.value === null ? null : <p class="field-fault">{fault.value}</p>}
    </div>
  );
}

/** What is no number stays the text that it is, and is reported as a fault. */
function numberOf(text: string): Json {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  try {
    const value = parseExact(trimmed);
    return typeof value === 'number' || typeof value === 'object' ? value : text;
  } catch {
    return text;
  }
}
