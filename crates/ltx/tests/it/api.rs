//! The public interface, compared with the list in `tests/api.txt`. A change of the list is a change for users of the
//! crate: CONTRIBUTING says which ones need a new version.
//!
//! The list comes from the sources, parsed: every public item that the crate's root, `file` and `wal` lead to, without
//! documentation and bodies. It doesn't see what the compiler infers; the test `promises` holds the types to that.

use std::collections::BTreeSet;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, UseTree, Visibility};

/// A module and the public names in it.
struct Module {
    /// As users write it: empty for the root.
    path: &'static str,
    file: &'static str,
    /// Where the files of its private modules are.
    folder: &'static str,
}

const MODULES: [Module; 3] = [
    Module { path: "", file: "lib.rs", folder: "" },
    Module { path: "file::", file: "file/mod.rs", folder: "file/" },
    Module { path: "wal::", file: "wal.rs", folder: "wal/" },
];

fn parse(file: &str) -> Vec<Item> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())).items
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Tokens as text, with fewer spaces.
fn tidy(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (" : ", ": "),
        (" , ", ", "),
        (" ,", ","),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("& ", "&"),
        (" < ", "<"),
        ("< ", "<"),
        (" <", "<"),
        (" > ", "> "),
        (" >", ">"),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
        (" [", "["),
        ("- >", "->"),
        ("->[", "-> ["),
        ("=(", "= ("),
        (", )", ")"),
        (",)", ")"),
        ("&mut[", "&mut ["),
        // Whether a function changes its own copy is no matter of its callers.
        ("(mut ", "("),
        (", mut ", ", "),
    ] {
        text = text.replace(from, to);
    }
    text.trim_end_matches(',').to_owned()
}

/// The attributes that users notice.
fn notices(attributes: &[Attribute]) -> String {
    let seen = attributes.iter().filter(|attribute| {
        ["derive", "non_exhaustive", "must_use", "cfg", "deprecated"].iter().any(|name| attribute.path().is_ident(name))
    });
    seen.map(|attribute| tidy(attribute) + " ").collect()
}

/// The public fields, and whether there are others.
fn fields(fields: &Fields, all: bool) -> String {
    let shown = |field: &syn::Field| {
        let name = field.ident.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        name + &tidy(&field.ty)
    };
    let mut list: Vec<String> = fields.iter().filter(|field| all || is_public(&field.vis)).map(shown).collect();
    if list.len() < fields.len() {
        list.push("…".to_owned());
    }
    match fields {
        Fields::Named(_) => format!(" {{ {} }}", list.join(", ")),
        Fields::Unnamed(_) => format!("({})", list.join(", ")),
        Fields::Unit => String::new(),
    }
}

/// The lines of an item if it is public and, where `names` are given, one of them.
fn lines(
    path: &str,
    item: &Item,
    names: Option<&BTreeSet<String>>,
    types: &mut BTreeSet<String>,
    out: &mut Vec<String>,
) {
    let wanted = |name: &syn::Ident| names.is_none_or(|names| names.contains(&name.to_string()));
    match item {
        Item::Struct(item) if is_public(&item.vis) && wanted(&item.ident) => {
            types.insert(item.ident.to_string());
            let (head, generics) = (notices(&item.attrs), tidy(&item.generics));
            out.push(format!("{head}struct {path}{}{generics}{}", item.ident, fields(&item.fields, false)));
        }
        Item::Enum(item) if is_public(&item.vis) && wanted(&item.ident) => {
            types.insert(item.ident.to_string());
            out.push(format!("{}enum {path}{}", notices(&item.attrs), item.ident));
            for variant in &item.variants {
                out.push(format!("    {path}{}::{}{}", item.ident, variant.ident, fields(&variant.fields, true)));
            }
        }
        Item::Fn(item) if is_public(&item.vis) && wanted(&item.sig.ident) => {
            out.push(format!("{}{path}{}", notices(&item.attrs), tidy(&item.sig)));
        }
        Item::Const(item) if is_public(&item.vis) && wanted(&item.ident) => {
            out.push(format!("const {path}{}: {} = {}", item.ident, tidy(&item.ty), tidy(&item.expr)));
        }
        Item::Type(item) if is_public(&item.vis) && wanted(&item.ident) => {
            out.push(format!("type {path}{}{} = {}", item.ident, tidy(&item.generics), tidy(&item.ty)));
        }
        _ => {}
    }
}

/// The lines of an implementation for a public type.
fn implementation(path: &str, item: &Item, types: &BTreeSet<String>, out: &mut Vec<String>) {
    let Item::Impl(block) = item else { return };
    let of = tidy(&block.self_ty);
    if !types.contains(of.split('<').next().unwrap_or_default()) {
        return;
    }
    if let Some((_, kind, _)) = &block.trait_ {
        out.push(format!("impl{} {} for {path}{of}", tidy(&block.generics), tidy(kind)));
        return;
    }
    for item in &block.items {
        match item {
            ImplItem::Fn(item) if is_public(&item.vis) => {
                out.push(format!("{}{path}{of}::{}", notices(&item.attrs), tidy(&item.sig)));
            }
            ImplItem::Const(item) if is_public(&item.vis) => {
                out.push(format!("const {path}{of}::{}: {} = {}", item.ident, tidy(&item.ty), tidy(&item.expr)));
            }
            _ => {}
        }
    }
}

/// The names that a module makes public from each of its private modules.
fn exported(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| exported(tree, names)),
        other => panic!("not expected in a public use: {}", tidy(other)),
    }
}

/// The module that a `use` is about, and what comes after it.
fn origin(tree: &UseTree) -> (String, &UseTree) {
    match tree {
        UseTree::Path(path) => (path.ident.to_string(), &path.tree),
        other => panic!("not expected in a public use: {}", tidy(other)),
    }
}

fn interface() -> Vec<String> {
    let mut out = Vec::new();
    for module in &MODULES {
        let (mut here, mut types) = (Vec::new(), BTreeSet::new());
        let own = parse(module.file);
        let mut files = vec![parse(module.file)];
        own.iter().for_each(|item| lines(module.path, item, None, &mut types, &mut here));
        for item in &own {
            let Item::Use(item) = item else { continue };
            if is_public(&item.vis) {
                let (from, tree) = origin(&item.tree);
                let mut names = BTreeSet::new();
                exported(tree, &mut names);
                let file = parse(&format!("{}{from}.rs", module.folder));
                let before = here.len();
                file.iter().for_each(|item| lines(module.path, item, Some(&names), &mut types, &mut here));
                let found = here[before..].iter().filter(|line| !line.starts_with(' ')).count();
                assert_eq!(found, names.len(), "the public items of {from} are not all known: {names:?}");
            }
        }
        // Methods may be in any file of the module.
        for item in &own {
            let Item::Mod(item) = item else { continue };
            if !is_public(&item.vis) && item.ident != "tests" {
                files.push(parse(&format!("{}{}.rs", module.folder, item.ident)));
            }
        }
        for item in files.iter().flatten() {
            implementation(module.path, item, &types, &mut here);
        }
        out.extend(here);
    }
    out
}

#[test]
fn the_public_interface_is_the_one_that_is_recorded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api.txt");
    let found = interface().join("\n") + "\n";
    for dependency in ["crc_fast", "lz4", "libc", "once_cell", "twox_hash"] {
        assert!(!found.contains(&format!("{dependency}::")), "{dependency} is in the interface");
    }
    if std::env::var_os("SEAWALL_WRITE_API").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let (new, old): (BTreeSet<&str>, BTreeSet<&str>) = (found.lines().collect(), recorded.lines().collect());
    let added: Vec<_> = new.difference(&old).collect();
    let gone: Vec<_> = old.difference(&new).collect();
    assert!(
        found == recorded,
        "the public interface isn't the one in tests/api.txt. Gone (a break for users): {gone:#?}. New: {added:#?}. If this \
         is meant, `SEAWALL_WRITE_API=1 cargo test -p seawall-ltx public_interface` records it; see CONTRIBUTING, \"Releasing\""
    );
}
